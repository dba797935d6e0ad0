// The panel as one sees it: one view for each place where it is shown, all of one store (`messages.js`).
//
// Model text comes as text, or as HTML that was made and sanitised in the kernel.

class Panel {
  constructor(model, store, el) {
    Object.assign(this, { model, store, shown: new Map() });
    this.wish = (words) => wish(model, store, words);
    this.build(el);
    this.fill();
    this.draw();
    this.timer = setInterval(() => this.count(), 1000);
  }

  build(el) {
    const { store, model } = this;
    this.conversation = make("select", { onchange: () => this.choose() });
    this.branch = make("select", { onchange: () => this.wish({ do: "use", turn: this.branch.value }) });
    this.name = make("input", { placeholder: "name", size: 10, onkeydown: (event) => this.named(event) });
    this.name.hidden = true;
    this.name.setAttribute("aria-label", "Name of the new conversation");
    this.head = make("div", { className: "kimi-row", role: "toolbar", "aria-label": "Conversation" },
      labelled("Conversation", this.conversation), this.name,
      labelled("Branch", this.branch, "The ways that the conversation went"),
      this.button("New", "Begin the conversation afresh; the turns so far are kept", () => this.wish({ do: "new" })),
      this.button("Undo", "Take the last turn out of the conversation", () => this.wish({ do: "undo" })));
    this.notice = make("div", { className: "kimi-notice", role: "note" });
    this.log = make("div", { className: "kimi-log", role: "log", tabIndex: 0, "aria-live": "polite", "aria-label": "Conversation" });
    this.status = make("div", { className: "kimi-status", role: "status" });
    this.error = make("div", { className: "kimi-error", role: "alert" });
    this.asked = make("div", { className: "kimi-asked" });
    this.prompt = make("textarea", { rows: 3, placeholder: "Ask Kimi. {{ name }} puts in a value of the notebook.",
      oninput: () => this.wrote(), onkeydown: (event) => this.pressed(event) });
    this.prompt.setAttribute("aria-label", "Prompt. Control or Command with Enter sends it.");
    this.send = this.button("Send", "Ctrl+Enter or ⌘+Enter", () => send(model, store), "kimi-main");
    this.stop = this.button("Stop", "End the reply; what arrived is kept", () => stop(model, store));
    this.interrupt = this.button("Interrupt the cell", "What the notebook's ■ does", () => kernelOf(model)?.interrupt?.());
    this.cancel = this.button("Cancel the edit", "", () => this.edit(null));
    this.keys = make("span", { className: "kimi-quiet", textContent: "Ctrl/⌘+Enter sends, Enter is a new line" });
    this.files = make("span", { className: "kimi-files" });
    const buttons = make("div", { className: "kimi-row" }, this.send, this.stop, this.interrupt, this.cancel, this.files, this.keys);
    this.strip = make("div", { className: "kimi-strip", role: "group", "aria-label": "Usage" });
    this.plot = make("div", { className: "kimi-plot" });
    el.replaceChildren(make("section", { className: "kimi-panel", "aria-label": "Kimi", "data-lm-suppress-shortcuts": "true" },
      this.head, this.notice, this.log, this.asked, this.status, this.error, this.prompt, buttons, this.settings(), this.strip, this.plot));
    this.root = el.firstElementChild;
    this.root.addEventListener("keydown", (event) => event.stopPropagation()); // the notebook's own shortcuts
  }

  settings() {
    const field = (name, control) => {
      control.onchange = () => { this.store.form[name] = control.type === "checkbox" ? control.checked : control.value; this.shareForm(); };
      return (this[`in_${name}`] = control);
    };
    const at = (name, type, properties) => field(name, make("input", { type, ...properties }));
    this.system = make("textarea", { rows: 2, placeholder: "none" });
    this.system.onchange = () => this.wish({ do: "system", text: this.system.value });
    this.variable = make("select", { onchange: () => this.insertVariable() });
    this.file = make("input", { placeholder: "path of a file or image", onkeydown: (event) => event.key === "Enter" && this.attach() });
    this.tools = make("fieldset", { className: "kimi-tools" });
    const details = make("details", { className: "kimi-settings" }, make("summary", { textContent: "Settings" }),
      make("div", { className: "kimi-grid" },
        labelled("Model", field("model", make("select"))),
        labelled("Effort", field("effort", make("select")), "How hard it thinks, and how long that takes"),
        labelled("Most tokens", at("max_tokens", "number", { min: 1, max: 1048576, placeholder: "by effort" }), "Of the reply, thinking included"),
        labelled("Cache", field("cache", make("select")), "How long the server keeps the prompt"),
        labelled("Web search", at("searches", "checkbox", {})),
        labelled("at most", at("search", "number", { min: 1, max: 9999 }), "Searches for one reply; each is billed"),
        labelled("Insert a variable", this.variable),
        labelled("Attach a file", this.file),
        labelled("System prompt", this.system)),
      this.tools);
    options(this.in_cache, [["5m", "5 minutes"], ["1h", "1 hour"]], "5m");
    return details;
  }

  button(text, title, action, name = "") {
    return make("button", { type: "button", textContent: text, title, onclick: action, className: name });
  }

  // --- what is being written

  wrote() {
    this.store.form.prompt = this.prompt.value;
    this.store.error = "";
    this.shareForm();
    this.draw();
  }

  shareForm() {
    each(this.store, (view) => view !== this && view.fill());
  }

  fill() {
    const form = this.store.form;
    if (this.prompt.value !== form.prompt) this.prompt.value = form.prompt;
    for (const name of ["model", "effort", "cache", "max_tokens", "search"]) this[`in_${name}`].value = form[name];
    this.in_searches.checked = form.searches;
    this.files.replaceChildren(...form.files.map((path) =>
      this.button(`${path} ✕`, "Remove this file", () => { form.files = form.files.filter((other) => other !== path); each(this.store, (view) => view.fill()); })));
  }

  pressed(event) {
    if (event.isComposing || event.keyCode === 229 || event.key !== "Enter") return; // Enter confirms a candidate there
    if (!event.ctrlKey && !event.metaKey) return; // a new line, with or without Shift
    event.preventDefault();
    send(this.model, this.store);
  }

  insertVariable() {
    const [start, end] = [this.prompt.selectionStart, this.prompt.selectionEnd];
    this.prompt.setRangeText(`{{ ${this.variable.value} }}`, start, end, "end");
    this.variable.value = "";
    this.prompt.focus();
    this.wrote();
  }

  attach() {
    const path = this.file.value.trim();
    if (!path) return;
    this.store.form.files = [...this.store.form.files.filter((other) => other !== path), path];
    this.file.value = "";
    each(this.store, (view) => view.fill());
  }

  choose() {
    const other = this.conversation.value === "";
    this.name.hidden = !other;
    if (other) this.name.focus();
    else this.wish({ do: "switch", name: this.conversation.value });
  }

  named(event) {
    if (event.key !== "Enter" || event.isComposing || event.keyCode === 229) return;
    this.wish({ do: "switch", name: this.name.value });
    this.name.value = "";
    this.name.hidden = true;
  }

  edit(item) {
    this.store.editing = item?.id ?? null;
    this.store.form.prompt = item?.prompt ?? "";
    each(this.store, (view) => (view.fill(), view.draw()));
    this.prompt.focus();
  }

  // --- what there is

  draw() {
    const { store } = this, state = store.state;
    const waits = [...store.pending.values()].some((since) => Date.now() - since >= BUSY_AFTER);
    const runs = runningHere(state);
    this.send.disabled = store.dead || !store.form.prompt.trim();
    this.send.textContent = store.editing ? "Send instead" : "Send";
    this.stop.disabled = store.dead || !runs.length;
    this.cancel.hidden = !store.editing;
    this.interrupt.hidden = !(waits || runs.some((turn) => turn.cell)) || store.dead || !kernelOf(this.model)?.interrupt;
    this.status.textContent = this.says(waits, runs, (state?.running.length ?? 0) - runs.length);
    this.error.textContent = store.error;
    this.drawAsked();
    if (!state) return this.log.replaceChildren(nodesOf(this.model.get("_saved")));
    this.notice.textContent = state.notice;
    options(this.conversation, [...state.conversations.map((name) => [name, name]), ["", "another …"]], state.conversation);
    options(this.branch, state.branches.map((branch) => [branch.turn, branch.label]), state.head ?? "");
    this.branch.disabled = !state.branches.length;
    options(this.in_model, [...new Set([...state.models, store.form.model])].map((name) => [name, name]), store.form.model);
    options(this.in_effort, state.efforts.map((effort) => [effort.value, effort.label]), store.form.effort);
    options(this.variable, [["", "…"], ...state.variables.map((name) => [name, name])], "");
    this.in_cache.value = store.form.cache;
    if (document.activeElement !== this.system) this.system.value = state.system;
    this.drawTools(state);
    this.drawLog(state, runs);
    this.drawStrip(state);
  }

  says(waits, runs, elsewhere) {
    if (this.store.dead) return "The kernel that this panel belonged to has ended: run %kimi panel again.";
    if (waits) return "The kernel is busy with a cell; what you asked for is queued behind it. ■ (interrupt) ends the cell.";
    if (runs.some((turn) => turn.cell)) return "A cell is asking.";
    if (runs.length) return "Kimi is answering.";
    return elsewhere ? `Kimi is answering in another conversation (${elsewhere}); %kimi jobs lists them.` : "";
  }

  drawAsked() {
    this.asked.replaceChildren(...[...this.store.asked].map(([call, text]) => make("div", { role: "alertdialog", "aria-label": text },
      make("span", { textContent: text }),
      this.button("Allow", "", () => this.wish({ do: "answer", call, allowed: true })),
      this.button("Refuse", "", () => this.wish({ do: "answer", call, allowed: false })))));
  }

  drawTools(state) {
    const wanted = JSON.stringify(state.tools);
    if (this.tools.kimiShown === wanted) return;
    this.tools.kimiShown = wanted;
    this.tools.replaceChildren(make("legend", { textContent: state.tools.length ? "Tools" : "No tools: register functions with @kimi.tool" }),
      ...state.tools.map((name) => {
        const box = make("input", { type: "checkbox", checked: this.store.form.tools.includes(name) });
        box.onchange = () => { this.store.form.tools = [...this.store.form.tools.filter((other) => other !== name), ...(box.checked ? [name] : [])]; };
        return make("label", {}, box, ` ${name}`);
      }));
  }

  drawLog(state, runs) {
    const outgoing = [...(this.store.outgoing ?? new Map())].map(([n, sent]) => ({ key: n, prompt: sent.prompt, waits: true }));
    const wanted = [...state.turns.map((id) => this.store.items.get(id)).filter(Boolean), ...runs, ...outgoing];
    const kept = new Map();
    const boxes = wanted.map((turn) => {
      const key = `${turn.id ?? turn.key} ${turn.status ?? ""}`;
      const box = this.shown.get(key) ?? (turn.id ? this.finished(turn) : turn.waits ? this.waiting(turn) : this.running(turn));
      kept.set(key, box);
      return box;
    });
    for (const [key, box] of this.shown) if (!kept.has(key)) box.kimiGone?.();
    this.shown = kept;
    const stays = this.isAtEnd();
    this.log.setAttribute("aria-busy", String(runs.length > 0));
    if (boxes.length !== this.log.children.length || boxes.some((box, n) => box !== this.log.children[n])) this.log.replaceChildren(...boxes);
    if (!boxes.length) this.log.replaceChildren(make("p", { className: "kimi-quiet", textContent: "Nothing has been asked in this conversation yet." }));
    if (stays) this.toEnd();
  }

  question(turn, ...more) {
    const origin = turn.origin === "cell" || turn.cell ? "You, in a cell" : "You";
    return make("div", { className: "kimi-question" }, make("div", { className: "kimi-who", textContent: origin }),
      make("div", { className: "kimi-said", textContent: turn.prompt }), ...more);
  }

  finished(item) {
    const reply = make("div", { className: "kimi-reply" });
    reply.append(nodesOf(item.html));
    this.model.widget_manager?.rendermime?.latexTypesetter?.typeset(reply);
    const act = (text, title, action) => this.button(text, title, action);
    return make("article", { className: `kimi-turn kimi-${item.status}` }, this.question(item), reply,
      make("div", { className: "kimi-acts", role: "toolbar", "aria-label": "This turn" },
        act("Edit", "Change the question and send it again, in its place", () => this.edit(item)),
        act("Copy", "Copy the turn as markdown", (event) => this.copy(item, event.target)),
        act("Insert as cell", "Its last code block, or the turn as text", (event) => this.insert(item, event.target)),
        act("Go on from here", "Later turns leave the conversation; they are kept as a branch", () => this.wish({ do: "use", turn: item.id }))));
  }

  running(turn) {
    const reply = replyFor(this.store, turn.key), body = make("div", { className: "kimi jp-RenderedHTMLCommon mathjax_ignore tex2jax_ignore" });
    const view = new View(reply, body);
    reply.views.add(view);
    const box = make("article", { className: "kimi-turn kimi-running" }, this.question(turn), make("div", { className: "kimi-reply" }, body));
    box.kimiGone = () => reply.views.delete(view);
    return box;
  }

  waiting(turn) {
    return make("article", { className: "kimi-turn" }, this.question(turn, make("div", { className: "kimi-quiet", textContent: "on its way to the kernel …" })));
  }

  isAtEnd() {
    return this.log.scrollHeight - this.log.scrollTop - this.log.clientHeight < 60;
  }

  toEnd() {
    this.log.scrollTop = this.log.scrollHeight;
  }

  follow() {
    if (this.wasAtEnd ?? true) this.toEnd();
    this.wasAtEnd = this.isAtEnd();
  }

  drawStrip(state) {
    const use = state.usage, percent = (part) => `${Math.round(part * 100)} %`;
    const fact = (name, value, title = "") => make("span", { className: "kimi-fact", title }, make("b", { textContent: value }), ` ${name}`);
    this.left = fact("until the cache forgets", "–", "The server keeps the prompt so long; asking before is cheaper");
    const meter = make("meter", { min: 0, max: use.window, value: use.context, "aria-label": "Context used" });
    this.strip.replaceChildren(
      fact("in", number(use.in), "Tokens of all requests of this conversation, cached or not"), fact("cached", number(use.cached)),
      fact("out", number(use.out), "Thinking included"), fact("cache hits", use.hit_rate == null ? "–" : percent(use.hit_rate)),
      fact("this conversation", use.cost), fact("today", use.today), this.left,
      make("span", { className: "kimi-fact", title: "Tokens of the last request and its reply" }, meter, ` ${number(use.context)} of ${number(use.window)} context`));
    const legend = [["cached", "cached"], ["fresh", "new"], ["out", "out"]].map(([kind, text]) =>
      make("span", { className: "kimi-fact" }, make("span", { className: `kimi-bar kimi-bar-${kind}` }), text));
    const tokens = make("div", { className: "kimi-strip" }, make("span", { className: "kimi-quiet", textContent: "Tokens of each turn:" }), ...legend);
    this.plot.replaceChildren(...(use.plot.length > 1 ? [tokens, plot(use.plot)] : []));
    this.count();
  }

  count() {
    const seconds = this.store.state?.usage.expires_in;
    if (!this.left) return;
    const left = seconds == null ? null : seconds - (Date.now() - this.store.heardAt) / 1000;
    this.left.firstChild.textContent = left == null ? "–" : left <= 0 ? "0:00" : clock(left);
  }

  // --- what is done with a turn

  async copy(item, button) {
    try {
      await navigator.clipboard.writeText(item.markdown);
      this.tell(button, "Copied");
    } catch {
      this.tell(button, "The browser does not allow it");
    }
  }

  insert(item, button) {
    const cell = cellOf(item), notebook = this.model.widget_manager?.context?.model?.sharedModel;
    if (!notebook?.insertCell) {
      navigator.clipboard?.writeText(cell.source);
      return this.tell(button, "Copied: paste it into a cell");
    }
    const place = parseInt(this.root.closest(".jp-Cell")?.dataset.windowedListIndex, 10);
    notebook.insertCell(Number.isNaN(place) ? notebook.cells.length : place + 1, cell);
    this.tell(button, "Inserted");
  }

  tell(button, text) {
    const before = (button.kimiText ??= button.textContent);
    button.textContent = text;
    setTimeout(() => (button.textContent = before), 1500);
  }

  remove() {
    clearInterval(this.timer);
    for (const box of this.shown.values()) box.kimiGone?.();
    this.store.views.delete(this);
  }
}

export default {
  initialize({ model }) {
    const store = storeOf(model);
    const listen = (message) => hear(store, message);
    const ended = () => { store.dead = true; each(store, (view) => view.draw()); };
    model.on("msg:custom", listen);
    model.on("comm_live_update", ended);
    wish(model, store, { do: "hello" });
    return () => {
      model.off("msg:custom", listen);
      ended();
      stores.delete(model.get("_panel"));
    };
  },

  render({ model, el }) {
    const store = storeOf(model), view = new Panel(model, store, el);
    store.views.add(view);
    return () => view.remove();
  },
};
