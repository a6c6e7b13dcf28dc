/** The entry of the worker that runs one program, a credential plugin or a hook; the main isolate may start no program. */
import { createProcessRunner, type Runner } from "../backends/tools/mod.ts";
import { errorText, systemClock } from "../platform/mod.ts";
import type { PluginOutcome, PluginRequest, PluginRole } from "./start_plugin.ts";
import { ownScope } from "./web_worker.ts";

const scope = ownScope<PluginRole | PluginRequest, PluginOutcome>();
let ready: { readonly role: PluginRole; readonly runner: Runner } | undefined;

scope.onmessage = ({ data }) => {
  if ("program" in data) {
    if (ready) throw new Error("message refused: a worker keeps its first role");
    ready = { role: data, runner: createProcessRunner({ clock: systemClock, path: data.env.PATH ?? "" }) };
  } else if (ready) {
    run(ready.role, ready.runner, data);
  }
};

/** The maximum of a program's output, in characters. An ExecCredential has some kB. */
const MOST_OUTPUT = 2 ** 20;

/** Everything except these strings and numbers was fixed before the main isolate read anything from the network. */
async function run({ program, args, env }: PluginRole, runner: Runner, request: PluginRequest): Promise<void> {
  const number = Number(request.number);
  const own = request.execInfo === undefined ? env : { ...env, KUBERNETES_EXEC_INFO: String(request.execInfo) };
  const stdin = request.stdin === undefined ? undefined : [String(request.stdin)];
  try {
    const result = await runner.run({
      tool: program,
      args,
      env: own,
      stdin,
      timeoutMs: Number(request.timeoutMs),
      mostOutput: MOST_OUTPUT,
    });
    scope.postMessage({ number, result });
  } catch (error) {
    scope.postMessage({ number, problem: errorText(error) });
  }
}
