/** The entry of the worker that runs a kubeconfig's credential plugin, which the main isolate may not. */
import { createProcessRunner } from "../backends/process_runner.ts";
import { systemClock } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import type { PluginOutcome, PluginRequest } from "./plugin_protocol.ts";

/** The global scope of a worker; the compiler sees that of the main isolate. */
interface WorkerScope {
  onmessage: ((event: MessageEvent<PluginRequest>) => void) | null;
  postMessage(message: PluginOutcome): void;
}

const scope = globalThis as unknown as WorkerScope;
const runner = createProcessRunner({ clock: systemClock });

scope.onmessage = async ({ data: { number, call } }) => {
  const { program, ...rest } = call;
  try {
    scope.postMessage({ number, result: await runner.run({ tool: program, ...rest }) });
  } catch (error) {
    scope.postMessage({ number, problem: errorText(error) });
  }
};
