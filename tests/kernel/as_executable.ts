import { type Lab, NETWORK } from "../../demo/lab.ts";
import { systemClock } from "../../platform/clock.ts";
import { TIMEOUT_FACTOR } from "../chaos/wait.ts";

/** The sources of this project. */
export const ROOT = new URL("../../", import.meta.url).pathname;

/** A Sluice that has not exited by then is killed. */
const DEADLINE_MS = 60_000 * TIMEOUT_FACTOR;

/** A Sluice that runs from source with the permissions of the executable, in the lab's node. */
export interface RestrictedSluice {
  /** Resolves with the log so far once it satisfies the predicate, or once the process has exited. */
  waitFor(predicate: (log: string) => boolean): Promise<string>;
  /** Sends SIGTERM and resolves with the exit status and the whole log. */
  stop(): Promise<{ readonly status: number; readonly log: string }>;
  /** Resolves with the exit status and the whole log once the process has exited by itself. */
  ended(): Promise<{ readonly status: number; readonly log: string }>;
}

/** Options of `startRestricted`. */
export interface RestrictedOptions {
  /** The source tree; this project's by default. */
  readonly root?: string;
  /** The folder of manifests; deploy/example by default. */
  readonly manifests?: string;
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

/** The permissions that compile.sh grants the executable, as flags. */
async function executablePermissions(): Promise<string[]> {
  const script = Deno.readTextFileSync(`${ROOT}compile.sh`);
  const from = script.indexOf("kernel_tools="), to = script.indexOf("\n)", from) + 2;
  const print = `${script.slice(from, to)}\nprintf '%s\\n' "\${permissions[@]}"`;
  const { stdout } = await new Deno.Command("bash", { args: ["-c", print] }).output();
  return new TextDecoder().decode(stdout).trim().split("\n");
}

/** Starts Sluice on manifests. */
export async function startRestricted(lab: Lab, options: RestrictedOptions = {}): Promise<RestrictedSluice> {
  const { root = ROOT, manifests = `${ROOT}deploy/example`, env = {}, flags = [] } = options;
  const child = lab.start("node", [
    ...["env", ...Object.entries(env).map(([name, value]) => `${name}=${value}`)],
    ...[Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", ...await executablePermissions()],
    ...[`${root}/main.ts`, "--source", `file:${manifests}`, "--hostname-override", NETWORK.nodeName],
    ...["--control-socket", "", "--healthz-bind-address", "", "--logging-format", "text", "-v", "4"],
    ...flags,
  ], { stdout: "null", stderr: "piped" });
  let log = "", hasExited = false;
  const cancel = systemClock.schedule(DEADLINE_MS, () => {
    if (!hasExited) child.kill("SIGKILL");
  });
  let check = () => {};
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log += text;
      check();
    }
    hasExited = true;
    check();
  })();
  const ended = async () => {
    const [{ code }] = await Promise.all([child.status, drained]);
    cancel();
    return { status: code, log };
  };
  return {
    waitFor(predicate) {
      const { promise, resolve } = Promise.withResolvers<string>();
      check = () => {
        if (hasExited || predicate(log)) resolve(log);
      };
      check();
      return promise;
    },
    stop() {
      if (!hasExited) child.kill("SIGTERM");
      return ended();
    },
    ended,
  };
}

/** Whether the log shows a sync of both families. */
export function isSynced(log: string): boolean {
  return new Set(log.match(/ synced family=IPv\d/g)).size === 2;
}
