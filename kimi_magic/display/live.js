// One reply in an output of its own.

const replies = new Map(); // by the reply's id: messages come before a view is drawn, and views come and go

function replyOf(model) {
  const id = model.get("_reply");
  if (!replies.has(id)) replies.set(id, { ...newReply(), waiting: model.get("_waiting") });
  return replies.get(id);
}

export default {
  initialize({ model }) {
    const reply = replyOf(model);
    const listen = (message) => take(reply, message);
    model.on("msg:custom", listen);
    return () => {
      model.off("msg:custom", listen);
      replies.delete(model.get("_reply"));
    };
  },

  render({ model, el }) {
    const reply = replyOf(model);
    el.replaceChildren(nodesOf(model.get("_opening")));
    const body = document.createElement("div");
    el.firstElementChild.append(body);
    const view = new View(reply, body);
    reply.views.add(view);
    model.send({ started: true });
    return () => reply.views.delete(view);
  },
};
