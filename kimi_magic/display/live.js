// One reply in an output of its own.

const GONE = ["restarting", "autorestarting", "terminating", "dead"]; // of the kernel's status

const replies = new Map(); // by the reply's id: messages come before a view is drawn, and views come and go

function replyOf(model) {
  const id = model.get("_reply");
  if (!replies.has(id)) replies.set(id, { ...newReply(), waiting: model.get("_waiting"), ends: new Map() });
  return replies.get(id);
}

// The kernel is gone, and nothing will take this reply's place. A view of a finished reply is gone by then.
function end(reply) {
  reply.ended = true;
  for (const show of reply.ends.values()) show();
}

export default {
  initialize({ model }) {
    const reply = replyOf(model), kernel = model.widget_manager?.kernel;
    const listen = (message) => take(reply, message);
    const ended = () => end(reply);
    const watch = (_, status) => GONE.includes(status) && end(reply);
    model.on("msg:custom", listen);
    model.on("comm_live_update", ended);
    kernel?.statusChanged?.connect(watch);
    model.send({ started: true }); // as early as it can: a short reply may be over before it is drawn
    return () => {
      model.off("msg:custom", listen);
      model.off("comm_live_update", ended);
      kernel?.statusChanged?.disconnect(watch);
      replies.delete(model.get("_reply"));
    };
  },

  render({ model, el }) {
    const reply = replyOf(model);
    el.replaceChildren(nodesOf(model.get("_opening")));
    const body = document.createElement("div"), note = document.createElement("div");
    el.firstElementChild.append(body, note);
    const view = new View(reply, body);
    reply.views.add(view);
    reply.ends.set(view, () => note.replaceChildren(nodesOf(model.get("_ended"))));
    if (reply.ended) reply.ends.get(view)();
    return () => {
      reply.views.delete(view);
      reply.ends.delete(view);
    };
  },
};
