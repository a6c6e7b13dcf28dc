/** Tools and backends in the node of the lab. */
import { createNftablesBackend } from "../../backends/nftables/backend.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import type { Backend, BackendOptions } from "../../backends/contract/backend.ts";
import type { Runner } from "../../backends/tools/runner.ts";
import type { Family } from "../../core/model/mod.ts";
import { systemClock } from "../../platform/clock.ts";
import { searchPath } from "../../platform/host.ts";
import { silentLogger } from "../../platform/log.ts";

/** Runs tools in the node's namespace. */
export function runnerInNode(signal?: AbortSignal): Runner {
  const runner = createProcessRunner({ clock: systemClock, path: searchPath(), signal });
  const inNode = <T extends { readonly tool: string; readonly args: readonly string[] }>(call: T): T => (
    { ...call, tool: "ip", args: ["netns", "exec", "node", call.tool, ...call.args] }
  );
  return { run: (call) => runner.run(inNode(call)), converse: (call) => runner.converse!(inNode(call)) };
}

/** A backend whose tools run in the node's namespace; of nftables mode by default. */
export function backendInNode(
  family: Family,
  create: (options: BackendOptions) => Backend = createNftablesBackend,
  runner: Runner = runnerInNode(),
): Backend {
  return create({ family, runner, clock: systemClock, logger: silentLogger });
}
