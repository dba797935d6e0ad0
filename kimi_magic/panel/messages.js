// The panel's messages: what the kernel says there is, and what the user wants of it.
//
// Each wish has a number; the kernel acknowledges it at once, so a wish that is not acknowledged waits
// behind a running cell.

const BUSY_AFTER = 700; // ms without an acknowledgement
const INTERRUPT_AFTER = 200; // ms until a cell that waits for the reply is ended as cells are
const stores = new Map(); // by panel: what came, and what is being written, whichever view shows it

function storeOf(model) {
  const id = model.get("_panel");
  if (!stores.has(id)) {
    stores.set(id, {
      state: null, items: new Map(), replies: new Map(), asked: new Map(), pending: new Map(), views: new Set(),
      form: { prompt: "", model: "", effort: "", max_tokens: "", cache: "", searches: false, search: 5, tools: [], files: [] },
      editing: null, error: "", dead: false, number: 0, heardAt: 0,
    });
  }
  return stores.get(id);
}

const each = (store, action) => { for (const view of store.views) action(view); };

// --- what the kernel says -----------------------------------------------------------------------

function hear(store, message) {
  if (message.kind === "ack") {
    store.pending.delete(message.n);
  } else if (message.kind === "taken") {
    store.outgoing?.delete(message.n);
  } else if (message.kind === "error") {
    store.error = message.text;
    giveBack(store, message.n);
  } else if (message.kind === "asked") {
    if (message.text) store.asked.set(message.call, message.text);
    else store.asked.delete(message.call);
  } else if (message.kind === "live") {
    const known = store.replies.has(message.key);
    take(replyFor(store, message.key), message);
    each(store, (view) => view.follow());
    if (known) return;
  } else if (message.kind === "state") {
    for (const item of message.items) store.items.set(item.id, item);
    store.state = message;
    store.heardAt = Date.now();
    const running = new Set(message.running.map((turn) => turn.key));
    for (const key of store.replies.keys()) if (!running.has(key)) store.replies.delete(key);
    store.form.model ||= message.defaults.model;
    store.form.effort ||= message.defaults.effort;
    store.form.cache ||= message.defaults.cache;
  }
  each(store, (view) => view.draw());
}

function replyFor(store, key) {
  if (!store.replies.has(key)) store.replies.set(key, newReply());
  return store.replies.get(key);
}

// --- what the user wants ------------------------------------------------------------------------

function wish(model, store, words) {
  const n = `${Date.now()}-${Math.random().toString(36).slice(2)}`;
  store.error = "";
  store.pending.set(n, Date.now());
  model.send({ ...words, n });
  setTimeout(() => store.pending.has(n) && each(store, (view) => view.draw()), BUSY_AFTER + 50);
  return n;
}

function send(model, store) {
  const form = store.form;
  if (!form.prompt.trim() || store.dead) return;
  const defaults = store.state?.defaults ?? {};
  const chosen = (name) => (form[name] === defaults[name] ? null : form[name]);
  const words = {
    do: store.editing ? "again" : "ask", turn: store.editing, prompt: form.prompt,
    model: chosen("model"), effort: chosen("effort"), cache: chosen("cache"),
    max_tokens: parseInt(form.max_tokens, 10) || null,
    search: form.searches ? parseInt(form.search, 10) || 5 : null,
    tools: form.tools, files: form.files,
  };
  const n = wish(model, store, words);
  (store.outgoing ??= new Map()).set(n, { prompt: form.prompt, files: form.files, editing: store.editing });
  Object.assign(form, { prompt: "", files: [] });
  store.editing = null;
  each(store, (view) => (view.fill(), view.draw()));
}

// A question that the kernel did not take stands in the box again, if nothing else does.
function giveBack(store, n) {
  const sent = store.outgoing?.get(n);
  store.outgoing?.delete(n);
  if (!sent || store.form.prompt) return;
  Object.assign(store.form, { prompt: sent.prompt, files: sent.files });
  store.editing = sent.editing;
  each(store, (view) => view.fill());
}

const runningHere = (state) => state?.running.filter((turn) => !turn.conversation || turn.conversation === state.conversation) ?? [];

function stop(model, store) {
  const turns = runningHere(store.state);
  const n = wish(model, store, { do: "stop", keys: turns.map((turn) => turn.key) });
  if (!turns.some((turn) => turn.cell)) return;
  setTimeout(() => store.pending.has(n) && kernelOf(model)?.interrupt?.(), INTERRUPT_AFTER);
}

const kernelOf = (model) => model.widget_manager?.kernel;
