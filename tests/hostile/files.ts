/** Hostile files: a state file, and manifests. */
import { hostileService } from "./objects.ts";
import type { HostileScenario, Target } from "./scenario.ts";

/** How a file becomes hostile. */
type Spoil = (path: string) => void;

const MiB = 2 ** 20;
const UNREADABLE = /file-unreadable/;

/** Writes a file in one step. */
function replace(path: string, text: string): void {
  Deno.writeTextFileSync(`${path}.new`, text);
  Deno.renameSync(`${path}.new`, path);
}

function fileTarget(source: string, path: string, text: (count: number) => string, spoil: Spoil): Target {
  replace(path, text(1));
  return {
    flags: ["--source", source],
    attack: () => spoil(path),
    relent: () => replace(path, text(2)),
    close: () => {},
  };
}

function stateText(count: number): string {
  const items = Array.from(
    { length: count },
    (_, i) =>
      `- service:\n    namespace: default\n    name: web-${i}\n    ips: {clusterips: {v4: [10.96.0.${i + 1}]}}\n` +
      "    ports:\n    - {name: http, protocol: 1, port: 80}\n",
  );
  return `services:\n${items.join("")}`;
}

function manifestText(count: number): string {
  return Array.from({ length: count }, (_, i) => JSON.stringify(hostileService(i + 1))).join("\n---\n");
}

const COMMON: Readonly<Record<string, Spoil>> = {
  "1 GiB": (path) => Deno.truncateSync(path, 2 ** 30),
  "aliases of aliases": (path) => {
    const lists = Array.from({ length: 30 }, (_, i) => `l${i}: &l${i} [${i === 0 ? "x" : `*l${i - 1}, *l${i - 1}`}]`);
    replace(path, `${lists.join("\n")}\nnodes: *l29\n`);
  },
  "10,000 brackets": (path) => replace(path, `nodes: ${"[".repeat(10_000)}\n`),
};

const OF_STATE: Readonly<Record<string, Spoil>> = {
  "a device": (path) => {
    Deno.symlinkSync("/dev/zero", `${path}.new`);
    Deno.renameSync(`${path}.new`, path);
  },
  "an item of 17 MiB": (path) => replace(path, `nodes:\n- name: ${"a".repeat(17 * MiB)}\n`),
};

/** The ways of a state file and of manifests. */
export const fileScenarios: readonly HostileScenario[] = [
  ...Object.entries({ ...COMMON, ...OF_STATE }).map(([name, spoil]) => ({
    name: `state file: ${name}`,
    says: UNREADABLE,
    start: (folder: string) => fileTarget(`state:${folder}/state.yaml`, `${folder}/state.yaml`, stateText, spoil),
  })),
  ...Object.entries(COMMON).map(([name, spoil]) => ({
    name: `manifests: ${name}`,
    says: /file-unreadable|manifest|\.yaml/,
    start: (folder: string) => fileTarget(`file:${folder}`, `${folder}/services.yaml`, manifestText, spoil),
  })),
];
