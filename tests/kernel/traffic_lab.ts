/** Tools and backends in the node of the lab. */
import { createNftablesBackend } from "../../backends/nftables/backend.ts";
import { createProcessRunner } from "../../backends/tools/process_runner.ts";
import type { Backend } from "../../backends/contract/backend.ts";
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

/** A backend of nftables mode whose tools run in the node's namespace. */
export function backendInNode(family: Family): Backend {
  return createNftablesBackend({ family, runner: runnerInNode(), clock: systemClock, logger: silentLogger });
}
