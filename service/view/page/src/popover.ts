// What is at a place of the map, and a hotspot to put there.

import { element, say } from "./panels";
import { act, type Area, type Run } from "./run";

interface Place {
  px: number;
  py: number;
  x: number;
  y: number;
  area: Area | null;
  /** Its load by the mean; null where nobody works at all. */
  ratio: number | null;
  wide: number;
  high: number;
  /** How far some pixels are, in units of the space. */
  reach: number;
}

interface Kind {
  name: string;
  about: string;
  unit: (value: number) => string;
  low: number;
  high: number;
  step: number;
  usual: number;
}

const KINDS: Record<string, Kind> = {
  objects: { name: "A crowd gathers", about: "for each object that comes, so many more appear around this place", unit: (v) => `${v} for each`, low: 1, high: 12, step: 1, usual: 4 },
  condense: { name: "Everything drifts here", about: "whatever comes is drawn towards this place, by that much of its way", unit: (v) => `${Math.round(v * 100)} %`, low: 0.1, high: 0.95, step: 0.05, usual: 0.7 },
  queries: { name: "Everybody asks about it", about: "so many standing questions are registered around this place", unit: (v) => say.whole(v), low: 500, high: 20000, step: 500, usual: 5000 },
  rate: { name: "Everything at once", about: "whatever comes, comes so many times, wherever it is", unit: (v) => `${v} times more`, low: 1, high: 12, step: 1, usual: 4 },
};

export interface Popover {
  open(place: Place): void;
  close(): void;
  readonly isOpen: boolean;
}

export function popover(form: HTMLFormElement, run: Run, onProblem: (text: string) => void): Popover {
  let place: Place | null = null;
  let kind = "objects";
  /** Who had the focus when it was opened, and gets it back. */
  let before: HTMLElement | null = null;

  function close(): void {
    const within = form.contains(document.activeElement);
    place = null;
    form.hidden = true;
    if (within) before?.focus({ preventScroll: true });
    before = null;
  }

  function open(opened: Place): void {
    if (place === null) before = document.activeElement as HTMLElement | null;
    place = opened;
    form.hidden = false;
    const parts: HTMLElement[] = [element("h2", `${degrees(opened.y, "N", "S")}  ${degrees(opened.x, "E", "W")}`)];
    const quit = element("button", "×", "close");
    quit.type = "button";
    quit.setAttribute("aria-label", "Close");
    quit.onclick = close;
    parts.push(quit);
    if (opened.area !== null && opened.area.workers.length) {
      const who = opened.area.workers.length === 1 ? `evaluator ${opened.area.workers[0]}` : `${opened.area.workers.length} evaluators, by keywords`;
      parts.push(element("p", opened.ratio === null ? `${who}: nothing to do` : `${who}: ${opened.ratio.toFixed(1)} times the mean load`));
    }
    if (run.offers.hotspot) parts.push(...hotspotFields());
    form.replaceChildren(...parts);
    const [wide, high] = [form.offsetWidth, form.offsetHeight];
    form.style.left = `${Math.min(Math.max(opened.px + 14, 8), opened.wide - wide - 8)}px`;
    form.style.top = `${Math.min(Math.max(opened.py - high / 2, 8), Math.max(opened.high - high - 8, 8))}px`;
    // The kind that is chosen, so that Enter puts the hotspot there; where there is none to choose, what closes it.
    (form.querySelector<HTMLElement>("input:checked") ?? quit).focus({ preventScroll: true });
  }

  function hotspotFields(): HTMLElement[] {
    const chosen = KINDS[kind];
    const kinds = element("fieldset");
    kinds.append(element("legend", "A hotspot here"));
    for (const [key, one] of Object.entries(KINDS)) {
      const label = element("label");
      const radio = element("input");
      radio.type = "radio";
      radio.name = "kind";
      radio.value = key;
      radio.checked = key === kind;
      radio.onchange = () => {
        kind = key;
        if (place !== null) open(place);
      };
      label.append(radio, element("span", one.name));
      kinds.append(label);
    }
    const strength = slider("Strength", "strength", chosen.low, chosen.high, chosen.step, chosen.usual, chosen.unit);
    const seconds = slider("For", "seconds", 5, 60, 5, 20, (v) => `${v} s`);
    const put = element("button", "Put it here", "put");
    put.type = "submit";
    return [kinds, element("p", chosen.about, "about"), strength, seconds, put];
  }

  form.onsubmit = async (event) => {
    event.preventDefault();
    if (place === null) return;
    const value = (name: string) => Number((form.elements.namedItem(name) as HTMLInputElement).value);
    const { x, y, reach } = place;
    const wanted = { kind, x, y, strength: value("strength"), seconds: value("seconds"), radius: reach };
    close();
    const problem = await act("/view/hotspot", wanted);
    if (problem !== null) onProblem(problem);
  };

  return {
    open,
    close,
    get isOpen() {
      return !form.hidden;
    },
  };
}

function slider(text: string, name: string, low: number, high: number, step: number, usual: number, unit: (value: number) => string): HTMLElement {
  const label = element("label", "", "slider");
  const input = element("input");
  Object.assign(input, { type: "range", name, min: `${low}`, max: `${high}`, step: `${step}`, value: `${usual}` });
  const shown = element("output", unit(usual));
  input.oninput = () => (shown.textContent = unit(Number(input.value)));
  label.append(element("span", text), input, shown);
  return label;
}

function degrees(value: number, above: string, below: string): string {
  return `${Math.abs(value).toFixed(2)}° ${value >= 0 ? above : below}`;
}
