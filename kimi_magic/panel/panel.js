// The panel as one sees it: one view for each place where it is shown, all of one store (`messages.js`).
//
// Model text comes as text, or as HTML that was made and sanitised in the kernel.

class Panel {
  constructor(model, store, el) {
    Object.assign(this, { model, store });
    this.wish = (words) => wish(model, store, words);
    this.build(el);
    this.fill();
    this.draw();
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
      (this.fresh = button("New", "Begin the conversation afresh; the turns so far are kept", () => this.wish({ do: "new" }))),
      (this.undo = button("Undo", "Take the last turn out of the conversation", () => this.wish({ do: "undo" }))));
    this.notice = make("div", { className: "kimi-notice", role: "note" });
    this.log = new Log(model, store, (item) => this.edit(item));
    this.status = make("div", { className: "kimi-status", role: "status" });
    this.error = make("div", { className: "kimi-error", role: "alert" });
    this.asked = make("div", { className: "kimi-asked" });
    this.prompt = make("textarea", { rows: 3, placeholder: "Ask Kimi. {{ name }} puts in a value of the notebook.",
      oninput: () => this.wrote(), onkeydown: (event) => this.pressed(event) });
    this.prompt.setAttribute("aria-label", "Prompt. Control or Command with Enter sends it.");
    this.send = button("Send", "Ctrl+Enter or ⌘+Enter", () => send(model, store), "kimi-main");
    this.stop = button("Stop", "End the reply; what arrived is kept", () => stop(model, store));
    this.interrupt = button("Interrupt the cell", "What the notebook's ■ does: it ends the replies in the background, too", () => kernelOf(model)?.interrupt?.());
    this.cancel = button("Cancel the edit", "", () => this.edit(null));
    this.keys = make("span", { className: "kimi-quiet", textContent: "Ctrl/⌘+Enter sends, Enter is a new line" });
    this.files = make("span", { className: "kimi-files" });
    const buttons = make("div", { className: "kimi-row" }, this.send, this.stop, this.interrupt, this.cancel, this.files, this.keys);
    this.strip = new Strip(store);
    el.replaceChildren(make("section", { className: "kimi-panel", "aria-label": "Kimi", "data-lm-suppress-shortcuts": "true" },
      this.head, this.notice, this.log.el, this.asked, this.status, this.error, this.prompt, buttons, this.settings(), this.strip.el, this.strip.plot));
    this.root = el.firstElementChild;
    this.root.addEventListener("keydown", (event) => event.stopPropagation()); // the notebook's own shortcuts
  }

  settings() {
    const field = (name, control) => {
      control.onchange = () => { this.store.form[name] = control.type === "checkbox" ? control.checked : control.value; wrote(this.store, this); };
      return (this[`in_${name}`] = control);
    };
    const at = (name, type, properties) => field(name, make("input", { type, ...properties }));
    this.system = make("textarea", { rows: 2, placeholder: "none" });
    this.system.onchange = () => this.wish({ do: "system", text: this.system.value });
    this.variable = make("select", { onchange: () => this.insertVariable() });
    this.file = make("input", { placeholder: "path of a file or image", onchange: () => this.attach() });
    this.tools = make("fieldset", { className: "kimi-tools" });
    const details = make("details", { className: "kimi-settings" }, make("summary", { textContent: "Settings" }),
      make("div", { className: "kimi-grid" },
        labelled("Model", field("model", make("select"))),
        labelled("Effort", field("effort", make("select")), "How hard it thinks, and how long that takes"),
        labelled("Most tokens", at("max_tokens", "text", {}), "Of the reply, thinking included; 8k is 8,192"),
        labelled("Cache", field("cache", make("select")), "How long the server keeps the prompt"),
        labelled("Web search", at("searches", "checkbox", {})),
        labelled("at most", at("search", "text", { inputMode: "numeric", placeholder: SEARCHES, "aria-label": "Web search, at most" }), "Searches for one reply; each is billed"),
        labelled("Insert a variable", this.variable),
        labelled("Attach a file", this.file),
        labelled("System prompt", this.system)),
      this.tools);
    options(this.in_cache, [["5m", "5 minutes"], ["1h", "1 hour"]], "5m");
    return details;
  }

  // --- what is being written

  wrote() {
    this.store.form.prompt = this.prompt.value;
    this.store.error = "";
    wrote(this.store, this);
    this.draw();
  }

  fill() {
    const form = this.store.form;
    if (this.prompt.value !== form.prompt) this.prompt.value = form.prompt;
    for (const name of ["model", "effort", "cache"]) this[`in_${name}`].value = this.chosen(name);
    for (const name of ["max_tokens", "search"]) this[`in_${name}`].value = form[name];
    this.in_searches.checked = form.searches;
    for (const box of this.tools.querySelectorAll("input")) box.checked = form.tools.includes(box.value);
    this.files.replaceChildren(...form.files.map((path) =>
      button(`${path} ✕`, "Remove this file", () => { form.files = form.files.filter((other) => other !== path); wrote(this.store); this.prompt.focus(); })));
  }

  // What stands in the form, or holds without a choice.
  chosen(name) {
    return this.store.form[name] || (this.store.state?.defaults[name] ?? "");
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
    wrote(this.store);
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

  // A turn of the transcript; null to go back to what was being written.
  edit(item) {
    const { store } = this, { prompt, files } = item ?? store.draft ?? { prompt: "", files: [] };
    if (item && !store.editing) store.draft = { prompt: store.form.prompt, files: store.form.files };
    store.editing = item?.id ?? null;
    Object.assign(store.form, { prompt, files });
    wrote(store);
    each(store, (view) => view.draw());
    this.prompt.focus();
  }

  // --- what there is

  draw() {
    const { store } = this, state = store.state;
    const waits = [...store.pending.values()].some((since) => Date.now() - since >= UNHEARD_AFTER);
    const runs = runningHere(state);
    this.send.disabled = store.dead || !store.form.prompt.trim();
    this.send.textContent = store.editing ? "Send instead" : "Send";
    this.stop.disabled = store.dead || !runs.length;
    this.cancel.hidden = !store.editing;
    const cellRuns = waits ? isBusy(this.model) : runs.some((turn) => turn.cell);
    this.interrupt.hidden = !cellRuns || store.dead || !kernelOf(this.model)?.interrupt;
    const says = this.says(waits, runs, (state?.running.length ?? 0) - runs.length);
    this.status.textContent = [says, store.note].filter(Boolean).join(" ");
    this.error.textContent = store.error;
    this.drawAsked();
    if (!state) return this.log.drawSaved();
    this.notice.textContent = state.notice;
    options(this.conversation, [...state.conversations.map((name) => [name, name]), ["", "another …"]], state.conversation);
    options(this.branch, state.branches.map((branch) => [branch.turn, branch.label]), state.head ?? "");
    this.branch.disabled = state.branches.length < 2;
    this.undo.disabled = store.dead || !state.head;
    this.fresh.disabled = store.dead || !state.turns.length;
    options(this.in_model, [...new Set([...state.models, this.chosen("model")])].map((name) => [name, name]), this.chosen("model"));
    options(this.in_effort, state.efforts.map((effort) => [effort.value, effort.label]), this.chosen("effort"));
    options(this.variable, [["", "…"], ...state.variables.map((name) => [name, name])], "");
    this.in_cache.value = this.chosen("cache");
    this.in_max_tokens.placeholder = state.defaults.max_tokens ? number(state.defaults.max_tokens) : "by effort";
    if (document.activeElement !== this.system) this.system.value = state.system;
    this.drawTools(state);
    this.log.draw(state, runs);
    this.strip.draw(state.usage);
  }

  says(waits, runs, elsewhere) {
    if (this.store.dead) return "The kernel that this panel belonged to has ended: run %kimi panel again.";
    if (waits) return unheard(this.model);
    if (this.store.asked.size) return "A tool waits for your answer.";
    if (runs.some((turn) => turn.cell)) return "A cell is asking.";
    if (runs.length) return "Kimi is answering.";
    if (this.store.editing && this.store.editing !== this.store.state?.turns.at(-1))
      return "This question will be asked again, in its place; the turns behind it leave the conversation, and are kept as a branch.";
    return elsewhere ? `Kimi is answering in another conversation (${elsewhere}); %kimi jobs lists them.` : "";
  }

  drawAsked() {
    const wanted = JSON.stringify([...this.store.asked]);
    if (this.asked.kimiShown === wanted) return; // a button that is being pressed stays
    this.asked.kimiShown = wanted;
    this.asked.replaceChildren(...[...this.store.asked].map(([call, text]) => make("div", { role: "alertdialog", "aria-label": text },
      make("span", { textContent: text }),
      button("Allow", "", () => this.answer(call, true)),
      button("Refuse", "", () => this.answer(call, false)))));
  }

  answer(call, allowed) {
    this.wish({ do: "answer", call, allowed });
    this.prompt.focus(); // the button that had the focus goes away
  }

  drawTools(state) {
    const wanted = JSON.stringify(state.tools);
    if (this.tools.kimiShown === wanted) return;
    this.tools.kimiShown = wanted;
    this.tools.replaceChildren(make("legend", { textContent: state.tools.length ? "Tools" : "No tools: register functions with @kimi.tool" }),
      ...state.tools.map((name) => {
        const box = make("input", { type: "checkbox", value: name, checked: this.store.form.tools.includes(name) });
        box.onchange = () => { this.store.form.tools = [...this.store.form.tools.filter((other) => other !== name), ...(box.checked ? [name] : [])]; wrote(this.store, this); };
        return make("label", {}, box, ` ${name}`);
      }));
  }

  remove() {
    this.strip.remove();
    this.log.remove();
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
