// The lists beside the map: evaluators with their load, and what happened.

import { clock } from "./curves";
import { act, type Happening, type Run } from "./run";
import { loadColour } from "./theme";

const MOST_ROWS = 60;
const MOST_LISTED = 120;

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const say = { whole: (value: number) => whole.format(value), compact: (value: number) => compact.format(value) };

export function element<K extends keyof HTMLElementTagNameMap>(tag: K, text = "", className = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}

export class Evaluators {
  private rows: { row: HTMLLIElement; bar: HTMLElement; ratio: HTMLElement; share: HTMLElement }[] = [];
  private built = "";
  onMark: (worker: number | null) => void = () => {};
  onProblem: (text: string) => void = () => {};

  constructor(
    private list: HTMLElement,
    private count: HTMLElement,
    private run: Run,
  ) {}

  draw(load: Float32Array): void {
    const start = this.run.start;
    if (start === null) return;
    const names = start.evaluators;
    const mean = load.reduce((sum, value) => sum + value, 0) / Math.max(load.length, 1);
    const total = mean * load.length;
    const order = names.map((_, worker) => worker);
    if (names.length > MOST_ROWS) order.sort((a, b) => load[b] - load[a]);
    const kills = this.run.offers.kill && start.checkpoints;
    const key = `${names.length} ${kills}`;
    if (key !== this.built) this.build(key, Math.min(names.length, MOST_ROWS), kills);
    this.count.textContent = names.length > MOST_ROWS ? `the ${MOST_ROWS} busiest of ${whole.format(names.length)}` : `${names.length}`;
    this.rows.forEach(({ row, bar, ratio, share }, place) => {
      const worker = order[place];
      const times = mean > 0 ? load[worker] / mean : 0;
      row.dataset.worker = `${worker}`;
      bar.style.width = `${Math.min(times / 4, 1) * 100}%`;
      bar.style.background = loadColour(times, 0.9);
      ratio.textContent = mean > 0 ? `${times.toFixed(times < 9.95 ? 1 : 0)}×` : "–";
      share.textContent = total > 0 ? `${((100 * load[worker]) / total).toFixed(names.length > 40 ? 1 : 0)} %` : "–";
      (row.querySelector(".name") as HTMLElement).textContent = `${worker}`;
      row.querySelector(".kill")?.setAttribute("aria-label", `Kill this worker: ${names[worker]}`);
      row.setAttribute("aria-label", `${names[worker]}: ${times.toFixed(1)} times the mean load, ${share.textContent} of the work`);
    });
  }

  private build(key: string, rows: number, kills: boolean): void {
    this.built = key;
    this.list.replaceChildren();
    this.rows = Array.from({ length: rows }, () => {
      const row = element("li");
      row.tabIndex = 0;
      const track = element("span", "", "track");
      const bar = element("span", "", "bar");
      track.append(bar, element("i"));
      const [ratio, share] = [element("span", "", "ratio"), element("span", "", "share")];
      row.append(element("span", "", "name"), track, ratio, share);
      const worker = () => Number(row.dataset.worker);
      row.onmouseenter = row.onfocus = () => this.onMark(worker());
      row.onmouseleave = row.onblur = () => this.onMark(null);
      if (kills) {
        const kill = element("button", "kill", "kill");
        kill.type = "button";
        kill.title = "End the process of this evaluator; the run goes back to its newest checkpoint";
        kill.onclick = async () => {
          const task = this.run.start!.evaluators[worker()];
          const problem = await act("/view/kill", { task });
          if (problem !== null) this.onProblem(problem);
        };
        row.append(kill);
      }
      this.list.append(row);
      return { row, bar, ratio, share };
    });
    if (!rows) this.list.append(element("li", "This topology has no bolt named 'evaluator'.", "empty"));
  }
}

const points = matchMedia("(hover: hover)");

export class Events {
  private drawn = "";
  private rows: [HTMLButtonElement, Happening][] = [];
  /** Whether moves are listed, or only what they answer to. */
  moves = true;
  /** The one whose plans are compared. */
  chosen: Happening | null = null;
  onPick: (event: Happening) => void = () => {};

  constructor(
    private list: HTMLElement,
    private count: HTMLElement,
    private run: Run,
  ) {}

  /** Somebody is about to choose something: a list that moves under a hand cannot be chosen from. */
  private get held(): boolean {
    return this.list.contains(document.activeElement) || (points.matches && this.list.matches(":hover"));
  }

  draw(): void {
    this.count.textContent = this.run.happened ? whole.format(this.run.happened) : "";
    const key = `${this.run.happened} ${this.moves}`;
    if (key !== this.drawn && this.run.events.length && (!this.held || this.drawn.endsWith(`${!this.moves}`))) {
      this.drawn = key;
      this.build();
    }
    for (const [button, event] of this.rows) {
      const chosen = this.chosen !== null && this.chosen.t === event.t && this.chosen.version === event.version;
      if (chosen !== button.hasAttribute("aria-current")) button.toggleAttribute("aria-current", chosen);
    }
  }

  private build(): void {
    const listed = this.moves ? this.run.events : this.run.events.filter((event) => event.what !== "move");
    this.rows = [];
    this.list.replaceChildren();
    for (const moves of grouped(listed).slice(-MOST_LISTED).reverse()) {
      const [event] = moves;
      const row = element("li", "", event.what);
      const button = element("button");
      button.type = "button";
      button.append(element("time", clock(event.t)), element("span", described(moves)));
      if (event.what === "move") button.append(element("small", because(event)));
      button.onclick = () => this.onPick(event);
      row.append(button);
      this.rows.push([button, event]);
      this.list.append(row);
    }
    if (!this.rows.length) this.list.append(element("li", "No hotspots, faults or recoveries so far.", "empty"));
  }
}

/** Moves of one round together. */
function grouped(events: Happening[]): Happening[][] {
  const groups: Happening[][] = [];
  for (const event of events) {
    const last = groups[groups.length - 1];
    if (last !== undefined && event.what === "move" && last[0].what === "move" && last[0].version === event.version && last[0].t === event.t) {
      last.push(event);
    } else groups.push([event]);
  }
  return groups;
}

const HOTSPOTS: Record<string, string> = {
  objects: "a crowd gathers", condense: "everything drifts there", queries: "everybody asks about it", rate: "everything at once",
};

export function described(moves: Happening[]): string {
  const [event] = moves;
  if (event.what === "move") {
    const queries = moves.reduce((sum, move) => sum + (move.queries ?? 0), 0);
    const pairs = moves.length > 3 ? `${moves.length} moves` : moves.map((move) => `${move.from} → ${move.to}`).join(", ");
    return `${event.kind}: ${pairs}, ${whole.format(queries)} ${queries === 1 ? "query" : "queries"}`;
  }
  if (event.what === "fault") return `${event.kind}: ${event.task ?? "a message"}`;
  if (event.what === "back") return `something was lost: back to epoch ${whole.format(event.to ?? 0)}, ${whole.format(event.lost ?? 0)} again`;
  if (event.what === "recovered") return `recovered: results again after ${whole.format(event.ms ?? 0)} ms`;
  return `hotspot: ${HOTSPOTS[event.kind ?? ""] ?? event.kind}`;
}

/** Why the policy chose a move, in its own letters and in words. */
export function because(event: Happening): string {
  const why = event.why ?? "";
  if (why.includes("C_r")) return `${why.replace("C_r", "saves").replace("C_t", "moving costs")}`;
  return why;
}
