// The panel's messages: what the kernel says there is, and what the user wants of it.
//
// What is not chosen in the form is "": the notebook's defaults hold, whatever they are by then.
// Each wish has a number; the kernel acknowledges it at once, so a wish that is not acknowledged waits
// behind a running cell, or for a kernel that cannot be reached.

const UNHEARD_AFTER = 700; // ms without an acknowledgement
const INTERRUPT_AFTER = 200; // ms until a cell that waits for the reply is ended as cells are
const SEARCHES = "5"; // where no number is given
const stores = new Map(); // by panel: what came, and what is being written, whichever view shows it

function storeOf(model) {
  const id = model.get("_panel");
  if (!stores.has(id)) {
    stores.set(id, {
      id, state: null, items: new Map(), replies: new Map(), asked: new Map(), pending: new Map(), outgoing: new Map(), views: new Set(),
      form: { prompt: "", model: "", effort: "", max_tokens: "", cache: "", searches: false, search: SEARCHES, tools: [], files: [] },
      editing: null, draft: null, error: "", note: "", dead: false, heardAt: 0,
      ...draftOf(id),
    });
  }
  return stores.get(id);
}

const each = (store, action) => { for (const view of store.views) action(view); };

// --- what is being written ----------------------------------------------------------------------

// It outlives a reload of the page. Where a page may keep nothing (a sandboxed frame), it does not.
function draftOf(id) {
  try {
    return JSON.parse(sessionStorage.getItem(`kimi-panel ${id}`)) ?? {};
  } catch {
    return {};
  }
}

// The form has changed: keep it, and let the other views show it.
function wrote(store, writer = null) {
  try {
    sessionStorage.setItem(`kimi-panel ${store.id}`, JSON.stringify({ form: store.form, editing: store.editing }));
  } catch {
    // nothing may be kept here, or no more
  }
  each(store, (view) => view !== writer && view.fill());
}

// --- what the kernel says -----------------------------------------------------------------------

function hear(store, message) {
  if (message.kind === "ack") {
    store.pending.delete(message.n);
  } else if (message.kind === "taken") {
    store.outgoing.delete(message.n);
  } else if (message.kind === "note") {
    store.note = message.text;
  } else if (message.kind === "error") {
    store.error = message.text;
    giveBack(store, message.n);
  } else if (message.kind === "asked") {
    if (message.text) store.asked.set(message.call, message.text);
    else store.asked.delete(message.call);
  } else if (message.kind === "live") {
    const known = store.replies.has(message.key);
    take(replyFor(store, message.key), message);
    each(store, (view) => view.log.follow());
    if (known) return;
  } else if (message.kind === "state") {
    for (const item of message.items) store.items.set(item.id, item);
    store.state = message;
    store.heardAt = Date.now();
    const running = new Set(message.running.map((turn) => turn.key));
    for (const key of store.replies.keys()) if (!running.has(key)) store.replies.delete(key);
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
  store.error = store.note = "";
  store.pending.set(n, Date.now());
  model.send({ ...words, n });
  setTimeout(() => store.pending.has(n) && each(store, (view) => view.draw()), UNHEARD_AFTER + 50);
  return n;
}

function send(model, store) {
  const form = store.form;
  if (!form.prompt.trim() || store.dead) return;
  const { searches, ...words } = form;
  words.search = searches ? form.search || SEARCHES : "";
  const n = wish(model, store, { do: store.editing ? "again" : "ask", turn: store.editing, ...words });
  store.outgoing.set(n, { prompt: form.prompt, files: form.files, editing: store.editing });
  Object.assign(form, { prompt: "", files: [] });
  store.editing = null;
  wrote(store);
  each(store, (view) => view.draw());
}

// A question that the kernel did not take stands in the box again, if nothing else does.
function giveBack(store, n) {
  const sent = store.outgoing.get(n);
  store.outgoing.delete(n);
  if (!sent || store.form.prompt) return;
  Object.assign(store.form, { prompt: sent.prompt, files: sent.files });
  store.editing = sent.editing;
  wrote(store);
}

const runningHere = (state) => state?.running.filter((turn) => !turn.conversation || turn.conversation === state.conversation) ?? [];

function stop(model, store) {
  const turns = runningHere(store.state);
  const n = wish(model, store, { do: "stop", keys: turns.map((turn) => turn.key) });
  if (!turns.some((turn) => turn.cell)) return;
  setTimeout(() => store.pending.has(n) && kernelOf(model)?.interrupt?.(), INTERRUPT_AFTER);
}

const kernelOf = (model) => model.widget_manager?.kernel;
const isBusy = (model) => kernelOf(model)?.status === "busy";

// Why a wish is not acknowledged, as far as the front end knows.
function unheard(model) {
  const link = kernelOf(model)?.connectionStatus ?? "connected";
  if (link !== "connected") return `The kernel cannot be reached (${link}); what you asked for goes to it once it can.`;
  if (isBusy(model)) return "The kernel is busy; what you asked for is queued behind what it does. ■ (interrupt) ends that.";
  return "The kernel has not heard what you asked for yet.";
}
