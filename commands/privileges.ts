/** Which of its rights a command keeps: the isolate that talks to the network starts no programs. */
import type { Configuration } from "../core/config/mod.ts";
import type { RunProgram } from "../core/run_program.ts";

/**
 * Starts what runs the credential plugin of the kubeconfig that the configuration names; undefined where it names none.
 * `onLost` is called when that has ended.
 */
export async function startCredentialPlugin(
  { source, kubeconfig, master }: Configuration,
  onLost: (reason: string) => void,
): Promise<RunProgram | undefined> {
  if (source.kind !== "kube" || kubeconfig === undefined) return undefined;
  const { pluginProgram } = await import("../core/sources/kubernetes/plugin_program.ts");
  const program = pluginProgram(kubeconfig, master);
  if (program === undefined) return undefined;
  const { startPluginWorker } = await import("../workers/start_plugin.ts");
  return startPluginWorker(program, onLost);
}

/** Gives up the right to start any program, for good. */
export function startNoMorePrograms(): void {
  Deno.permissions.revokeSync({ name: "run" });
}

/** What of the rights that were given up is left, as the runtime tells it: `prompt` and `denied` are none. */
export function rights(): { readonly run: Deno.PermissionState; readonly write: Deno.PermissionState } {
  const state = (name: "run" | "write") => Deno.permissions.querySync({ name }).state;
  return { run: state("run"), write: state("write") };
}
