// The transcript: what was asked and answered. A turn is a box that is made once, for each state of it.
//
// It stands at its end until somebody scrolls up, and again once they are back there.

class Log {
  constructor(model, store, edit) {
    Object.assign(this, { model, store, edit, shown: new Map(), stays: true, top: 0 });
    this.el = make("div", { className: "kimi-log", role: "log", tabIndex: 0, "aria-live": "polite", "aria-label": "Conversation",
      onscroll: () => this.scrolled() });
    this.sizes = new ResizeObserver(() => this.follow()); // before it is laid out there is no end to stand at
    this.sizes.observe(this.el);
  }

  draw(state, runs) {
    if (state.conversation !== this.conversation || this.store.outgoing.size) this.stays = true;
    this.conversation = state.conversation;
    const outgoing = [...this.store.outgoing].map(([n, sent]) => ({ key: n, prompt: sent.prompt, waits: true }));
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
    this.el.setAttribute("aria-busy", String(runs.length > 0));
    this.put(boxes.length ? boxes : [(this.nothing ??= make("p", { className: "kimi-quiet", textContent: "Nothing has been asked in this conversation yet." }))]);
    this.follow();
  }

  // What is there already stays untouched, with its focus and what is selected in it.
  put(boxes) {
    for (const child of [...this.el.childNodes]) if (!boxes.includes(child)) child.remove();
    boxes.forEach((box, n) => box !== this.el.childNodes[n] && this.el.insertBefore(box, this.el.childNodes[n] ?? null));
  }

  drawSaved() {
    this.el.replaceChildren(nodesOf(this.model.get("_saved")));
  }

  scrolled() {
    const { scrollTop, scrollHeight, clientHeight } = this.el;
    this.stays = scrollHeight - scrollTop - clientHeight < 60 || (this.stays && scrollTop >= this.top);
    this.top = scrollTop;
  }

  follow() {
    if (this.stays) this.el.scrollTop = this.el.scrollHeight;
  }

  // --- the boxes

  question(turn, ...more) {
    const origin = turn.origin === "cell" || turn.cell ? "You, in a cell" : "You";
    return make("div", { className: "kimi-question" }, make("div", { className: "kimi-who", textContent: origin }),
      make("div", { className: "kimi-said", textContent: turn.prompt }), ...more);
  }

  finished(item) {
    const reply = make("div", { className: "kimi-reply" });
    reply.append(nodesOf(item.html));
    Promise.resolve(this.model.widget_manager?.rendermime?.latexTypesetter?.typeset(reply)).then(() => this.follow());
    const act = (text, title, action) => button(text, title, action);
    const goOn = act("Go on from here", "Later turns leave the conversation; they are kept as a branch", () => wish(this.model, this.store, { do: "use", turn: item.id }));
    return make("article", { className: `kimi-turn kimi-${item.status}` }, this.question(item), reply,
      make("div", { className: "kimi-acts", role: "toolbar", "aria-label": "This turn" },
        act("Edit", "Change the question and send it again, in its place", () => this.edit(item)),
        act("Copy", "Copy the turn as markdown", (event) => this.copy(item.markdown, event.target, "Copied")),
        act("Insert as cell", "Its last code block, or the turn as text", (event) => this.insert(item, event.target)),
        ...(item.status === "complete" ? [goOn] : [])));
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

  // --- what is done with a turn

  async copy(text, button, done) {
    try {
      await navigator.clipboard.writeText(text);
      this.tell(button, done);
    } catch {
      this.tell(button, "The browser does not allow it");
    }
  }

  insert(item, button) {
    const cell = cellOf(item), notebook = this.model.widget_manager?.context?.model?.sharedModel;
    if (!notebook?.insertCell) return this.copy(cell.source, button, "Copied: paste it into a cell");
    const place = parseInt(this.el.closest(".jp-Cell")?.dataset.windowedListIndex, 10);
    notebook.insertCell(Number.isNaN(place) ? notebook.cells.length : place + 1, cell);
    this.tell(button, "Inserted");
  }

  tell(button, text) {
    const before = (button.kimiText ??= button.textContent);
    button.textContent = text;
    setTimeout(() => (button.textContent = before), 1500);
  }

  remove() {
    this.sizes.disconnect();
    for (const box of this.shown.values()) box.kimiGone?.();
  }
}
