/** The program of rest_test.ts: runs the proxy as the command does, with short delays before a worker is stopped. */
import { MODE_DESCRIPTIONS } from "../../backends/mod.ts";
import { COMMANDS } from "../../cli/commands/mod.ts";
import { dropPermissions } from "../../cli/commands/privileges.ts";
import { parseCommandLine } from "../../config/mod.ts";
import { runProxy } from "../../node/run.ts";
import { systemClock } from "../../platform/clock.ts";
import { createLogger } from "../../platform/log.ts";
import { writeToStderr } from "../../platform/output.ts";
import { startFamilyWorkers } from "../../workers/start.ts";

const line = parseCommandLine(Deno.args, {
  readFile: (path) => Deno.readTextFileSync(path),
  hostname: () => Deno.hostname(),
  kernelRelease: () => Deno.osRelease(),
  modes: MODE_DESCRIPTIONS,
  commands: COMMANDS,
});
if (line.kind !== "start") throw new Error(`invalid command line: ${JSON.stringify(line)}`);
const logging = { level: "info", format: "text" } as const;
const ending = new AbortController(), lost = new AbortController();
Deno.addSignalListener("SIGTERM", () => ending.abort());
const startFamily = startFamilyWorkers((reason) => lost.abort(new Error(reason)));
dropPermissions("run");
Deno.exit(
  await runProxy({
    configuration: line.configuration,
    logger: createLogger({ ...logging, clock: systemClock, write: writeToStderr }),
    logging,
    clock: systemClock,
    startFamily,
    cores: 4,
    restDelays: { firstMs: 100, laterMs: 500 },
    signal: ending.signal,
    lost: lost.signal,
  }),
);
