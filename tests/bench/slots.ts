/** Draws the slots of a consistent-hash service before and after the loss of an endpoint: `deno task plot` writes docs/balance.svg. */
import { slotTable } from "../../core/model/slot_table.ts";

const SLOTS = 12;
const BEFORE = ["10.244.1.10", "10.244.2.11", "10.244.1.12", "10.244.3.13"];
const GONE = "10.244.1.12";
const LEFT = 132, WIDTH = 58, HEIGHT = 40, TOP = [56, 176] as const;

function slotsOf(addresses: readonly string[]): readonly string[] {
  const endpoints = addresses.map((address) => `${address}:8080`);
  return slotTable(endpoints, undefined, SLOTS).map((index) => addresses[index]!);
}

const before = slotsOf(BEFORE), after = slotsOf(BEFORE.filter((address) => address !== GONE));
const middle = (slot: number) => LEFT + slot * WIDTH + (WIDTH - 4) / 2;

function row(slots: readonly string[], top: number): string[] {
  return slots.flatMap((address, slot) => [
    `<rect class="slot series-${BEFORE.indexOf(address)}" x="${LEFT + slot * WIDTH}" y="${top}" width="${
      WIDTH - 4
    }" height="${HEIGHT}" rx="4"/>`,
    `<text class="last" x="${middle(slot)}" y="${top + 25}">.${address.split(".").slice(2).join(".")}</text>`,
  ]);
}

function arrow(address: string, slot: number): string {
  const kind = after[slot] === address ? "same" : address === GONE ? "gone" : "moved";
  return `<line class="${kind}" x1="${middle(slot)}" y1="${TOP[0] + HEIGHT + 4}" x2="${middle(slot)}" y2="${
    TOP[1] - 5
  }"/>`;
}

const moved = before.filter((address, slot) => address !== GONE && after[slot] !== address).length;
const others = before.filter((address) => address !== GONE).length;
const title = `When one of four endpoints leaves, ${
  others - moved
} of ${others} slots of the others keep their endpoint`;

const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 840 256" width="840" height="256" role="img">
<title>${title}</title>
<style>
  :root { --ground: #ffffff; --text: #1f2328; --quiet: #59636e; --moved: #b8500f; --series-0: #cfe3fb; --series-1: #cdeedd; --series-2: #e4e6e9; --series-3: #ecdcf8 }
  @media (prefers-color-scheme: dark) {
    :root { --ground: #0d1117; --text: #f0f6fc; --quiet: #9198a1; --moved: #f0883e; --series-0: #17406d; --series-1: #14513a; --series-2: #30363d; --series-3: #4b2a66 }
  }
  text { font: 12px system-ui, sans-serif; fill: var(--quiet) }
  .name { font-size: 13px; font-weight: 600; fill: var(--text) }
  .last { text-anchor: middle; fill: var(--text) }
  .series-0 { fill: var(--series-0) } .series-1 { fill: var(--series-1) }
  .series-2 { fill: var(--series-2) } .series-3 { fill: var(--series-3) }
  .same { stroke: var(--quiet); stroke-width: 1 }
  .gone { stroke: var(--quiet); stroke-width: 1; stroke-dasharray: 3 4 }
  .moved { stroke: var(--moved); stroke-width: 2.5 }
  tspan { fill: var(--moved); font-weight: 600 }
</style>
<rect width="840" height="256" rx="6" fill="var(--ground)"/>
<text x="16" y="30">The kernel hashes a flow to one of ${SLOTS} slots; the slot decides the endpoint, on every node alike.</text>
<text class="name" x="16" y="${TOP[0] + 25}">four endpoints</text>
<text class="name" x="16" y="${TOP[1] + 25}">without .${GONE.split(".").slice(2).join(".")}</text>
${[...row(before, TOP[0]), ...before.map(arrow), ...row(after, TOP[1])].join("\n")}
<text x="16" y="242">Dashed: slots of the endpoint that left. <tspan>Thick</tspan>: ${moved} of the other ${others} slots moved, to keep the shares equal.</text>
</svg>
`;
Deno.writeTextFileSync(new URL("../../docs/balance.svg", import.meta.url), svg);
