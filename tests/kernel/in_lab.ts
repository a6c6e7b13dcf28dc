import { createLab, type Lab } from "../../demo/lab.ts";
import { requireIsolation } from "../../demo/isolate.ts";
import { systemClock } from "../../platform/clock.ts";
import { TIMEOUT_FACTOR } from "../chaos/wait.ts";

/** Runs a test in a new lab. Throws if this process is not isolated from the machine's network. */
export async function inLab(test: (lab: Lab) => Promise<void>): Promise<void> {
  requireIsolation();
  const lab = await createLab({ patience: TIMEOUT_FACTOR });
  try {
    await test(lab);
  } finally {
    await lab.close();
  }
}

const DEADLINE_MS = 60_000 * TIMEOUT_FACTOR;

/** Runs a command in the lab's node until its standard error matches, then ends it and returns its standard error. */
export async function logUntil(lab: Lab, command: readonly string[], pattern: RegExp): Promise<string> {
  const child = lab.start("node", command, { stdout: "null", stderr: "piped" });
  const cancel = systemClock.schedule(DEADLINE_MS, () => child.kill("SIGKILL"));
  let log = "";
  for await (const text of child.stderr.pipeThrough(new TextDecoderStream())) {
    const matched = pattern.test(log);
    log += text;
    if (!matched && pattern.test(log)) child.kill("SIGTERM");
  }
  await child.status;
  cancel();
  return log;
}
