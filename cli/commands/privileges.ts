/** Permissions that a command drops: the isolate that talks to the network cannot start programs. */
import type { Configuration } from "../../config/mod.ts";
import type { RunProgram } from "../../platform/mod.ts";

/** Starts the worker that runs the kubeconfig's credential plugin, if any; `onLost` is called when it dies. */
export async function startCredentialPlugin(
  { source, kubeconfig, master }: Configuration,
  onLost: (reason: string) => void,
): Promise<RunProgram | undefined> {
  if (source.kind !== "kube" || kubeconfig === undefined) return undefined;
  const { pluginOf } = await import("../../sources/kubernetes/mod.ts");
  const plugin = await pluginOf(kubeconfig, master);
  if (plugin?.kind !== "exec") return undefined;
  const { startPluginWorker } = await import("../../workers/mod.ts");
  const { command, args, env } = plugin.exec;
  return startPluginWorker("plugin", { program: command, args, env: { ...inheritedEnvironment(), ...env } }, onLost);
}

/** Starts the worker that runs the program of `--exec` in the environment of this process. */
export async function startHook(
  program: string,
  args: readonly string[],
  onLost: (reason: string) => void,
): Promise<RunProgram> {
  const { startPluginWorker } = await import("../../workers/mod.ts");
  return startPluginWorker("hook", { program, args, env: inheritedEnvironment() }, onLost);
}

/** Returns the environment, for HOME, AWS_PROFILE and the like, without LD_* and DYLD_*, with which Deno refuses to start programs. */
export function inheritedEnvironment(): Record<string, string> {
  return Object.fromEntries(Object.entries(Deno.env.toObject()).filter(([name]) => !/^(LD|DYLD)_/i.test(name)));
}

/** The variables that locate the API server in a pod, and those that systemd sets for `Type=notify`. */
const KEPT_VARIABLES = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT", "NOTIFY_SOCKET", "WATCHDOG_USEC"];

/** Copies the variables that a run reads after the env permission is dropped. */
export function keptEnvironment(): (name: string) => string | undefined {
  const copy = new Map(KEPT_VARIABLES.map((name) => [name, Deno.env.get(name)]));
  return (name) => copy.get(name);
}

/** Drops permissions of Deno, irrevocably. */
export function dropPermissions(...names: readonly ("run" | "ffi" | "write" | "net" | "env")[]): void {
  for (const name of names) Deno.permissions.revokeSync({ name });
}

/** Returns the state of the permissions that a run drops; `prompt` and `denied` both mean dropped. */
export function droppedPermissions(): Readonly<Record<string, Deno.PermissionState>> {
  const state = (name: "run" | "ffi" | "write" | "env") => Deno.permissions.querySync({ name }).state;
  return { run: state("run"), ffi: state("ffi"), write: state("write"), env: state("env") };
}
