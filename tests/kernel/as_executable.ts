import { type Lab, NETWORK } from "../../demo/lab.ts";
import { systemClock } from "../../platform/clock.ts";

/** The sources of this project. */
export const ROOT = new URL("../../", import.meta.url).pathname;

/** A Sluice that has not said what it is waited for by then never will. */
const DEADLINE_MS = 60_000;

/** A Sluice that runs from source with the rights of the executable, in the lab's node. */
export interface RestrictedSluice {
  /** Resolves with what it has written so far, once that is as the predicate says, or once it has ended. */
  until(predicate: (log: string) => boolean): Promise<string>;
  /** Ends it, and resolves with its exit status and all that it wrote. */
  stop(): Promise<{ readonly status: number; readonly log: string }>;
  /** The same, where it ends by itself. */
  ended(): Promise<{ readonly status: number; readonly log: string }>;
}

/** How it is started. */
export interface RestrictedOptions {
  /** The sources; this project's by default. */
  readonly root?: string;
  /** The folder of manifests; the example's by default. */
  readonly manifests?: string;
  /** Added to the environment. */
  readonly env?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
}

/** The rights that compile.sh gives to the executable, as flags. */
async function rightsOfExecutable(): Promise<string[]> {
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
    ...[Deno.execPath(), "run", "--quiet", "--cached-only", "--no-check", ...await rightsOfExecutable()],
    ...[`${root}/main.ts`, "--source", `file:${manifests}`, "--hostname-override", NETWORK.nodeName],
    ...["--control-socket", "", "--healthz-bind-address", "", "--logging-format", "text", "-v", "4"],
    ...flags,
  ], { stdout: "null", stderr: "piped" });
  let log = "", isOver = false;
  const cancel = systemClock.schedule(DEADLINE_MS, () => {
    if (!isOver) child.kill("SIGKILL");
  });
  let look = () => {};
  const drained = (async () => {
    for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
      log += text;
      look();
    }
    isOver = true;
    look();
  })();
  const ended = async () => {
    const [{ code }] = await Promise.all([child.status, drained]);
    cancel();
    return { status: code, log };
  };
  return {
    until(predicate) {
      const { promise, resolve } = Promise.withResolvers<string>();
      look = () => {
        if (isOver || predicate(log)) resolve(log);
      };
      look();
      return promise;
    },
    stop() {
      if (!isOver) child.kill("SIGTERM");
      return ended();
    },
    ended,
  };
}

/** Whether a log says that both families were synced. */
export function isSynced(log: string): boolean {
  return new Set(log.match(/ synced family=IPv\d/g)).size === 2;
}
