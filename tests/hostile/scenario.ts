/** The type of a hostile scenario, and the `sluice serve` that it attacks. */
import { program } from "../../demo/sluice.ts";
import { METHODS, WATCH_REQUEST } from "../../kpng/messages/mod.ts";
import { systemClock } from "../../platform/clock.ts";
import { processUsage } from "../chaos/process.ts";
import { inTime, waitFor } from "../chaos/wait.ts";
import { comparable, connectKpngClient } from "../fakes/kpng.ts";
import { reservePort } from "../fakes/sockets.ts";
import type { Selectable } from "../scenario_runner.ts";

/** A source of `sluice serve` that becomes hostile, or one that stays honest while something else does. */
export interface Target {
  /** The flags that name the source. */
  readonly flags: readonly string[];
  /** Becomes hostile. */
  attack(port: number): void | Promise<void>;
  /** Becomes honest again, with one more service. */
  relent(): void | Promise<void>;
  close(): void | Promise<void>;
}

/** One way to be hostile. */
export interface HostileScenario extends Selectable {
  /** The text in the log or at the health server; undefined if it is no problem. */
  readonly says?: RegExp;
  /** Whether it may add to what is served. */
  readonly mayAdd?: boolean;
  /** How long the attack lasts, in milliseconds; `ATTACK_MS` by default. */
  readonly attackMs?: number;
  /** Starts what attacks; `folder` is empty and its own. */
  start(folder: string): Target | Promise<Target>;
}

const READY_MS = 60_000;
/** How long an attack lasts. */
const ATTACK_MS = 6_000;
const ANSWER_MS = 5_000;
/** Backoffs end after half a minute. */
const RECOVERY_MS = 60_000;
/** More memory than before the attack than this is a leak: objects of 16 MiB are held as bytes, text and value. */
const MOST_MB = 250;

/**
 * Runs a scenario: `sluice serve` answers throughout, says what is wrong, keeps what it serves and its memory, and follows
 * the source again afterwards. Throws otherwise.
 */
export async function runHostile(
  { start, says, mayAdd, attackMs = ATTACK_MS }: HostileScenario,
): Promise<void> {
  const folder = await Deno.makeTempDir();
  const target = await start(folder);
  const [port, healthPort] = [reservePort(), reservePort()];
  const [first, ...args] = [
    ...program(),
    ...["serve", "--listen", `tcp://127.0.0.1:${port}`, "--logging-format", "text", ...target.flags],
    ...["--healthz-bind-address", `127.0.0.1:${healthPort}`, "--metrics-bind-address", ""],
  ];
  const child = new Deno.Command(first!, {
    args,
    // The executable may start plugins by name only.
    env: { PATH: `${folder}:${Deno.env.get("PATH")}` },
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  let log = "", ended = false;
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) log += text;
    ended = true;
  })();
  /** The body of an answer with status 200; undefined without one. */
  const answer = async (path: string) => {
    if (ended) throw new Error("sluice serve has ended");
    const response = await fetch(`http://127.0.0.1:${healthPort}${path}`).catch(() => undefined);
    const text = await response?.text();
    return response?.status === 200 ? text : undefined;
  };
  const state = async () => {
    const client = connectKpngClient(port, METHODS.global);
    try {
      const round = await inTime("a round", ANSWER_MS, client.round(WATCH_REQUEST.encode({})));
      return comparable(round).flat().toSorted();
    } finally {
      client.close();
    }
  };
  try {
    await waitFor("ready", READY_MS, async () => await answer("/readyz") !== undefined, 100);
    const before = await state(), { residentMB } = processUsage(child.pid);
    const from = log.length;
    await target.attack(port);
    const untilMs = systemClock.monotonic() + attackMs;
    let grownMB = 0;
    await waitFor("the attack", attackMs + ANSWER_MS, async () => {
      const alive = await inTime("an answer of /livez", ANSWER_MS, answer("/livez"));
      if (alive === undefined) throw new Error("/livez is not 200");
      grownMB = Math.max(grownMB, processUsage(child.pid).residentMB - residentMB);
      if (grownMB > MOST_MB) throw new Error(`memory has grown by ${Math.round(grownMB)} MB`);
      return systemClock.monotonic() > untilMs;
    }, 100);
    const isSaid = async () => says === undefined || says.test(log.slice(from) + await answer("/readyz"));
    await waitFor(`${says} in the log`, RECOVERY_MS, isSaid, 100);
    const during = await state();
    const lost = before.filter((one) => !during.includes(one));
    if (lost.length > 0) throw new Error(`no longer served: ${lost.join(", ")}`);
    if (!mayAdd && during.length > before.length) throw new Error("what was served has changed");
    await target.relent();
    await waitFor("the next change", RECOVERY_MS, async () => `${await state()}` !== `${during}`, 200);
    console.log(`memory grew by ${Math.round(grownMB)} MB`);
  } catch (error) {
    console.log(log.split("\n").slice(-15).join("\n"));
    throw error;
  } finally {
    if (!ended) child.kill("SIGKILL");
    await child.status;
    await drained;
    await target.close();
    await Deno.remove(folder, { recursive: true });
  }
}
