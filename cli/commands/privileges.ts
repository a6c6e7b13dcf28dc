/** Which of its rights a command keeps: the isolate that talks to the network starts no programs. */
import type { Configuration } from "../../config/mod.ts";
import type { RunProgram } from "../../platform/mod.ts";
import type { CredentialPlugin } from "../../sources/kubernetes/mod.ts";

/** What gives the kubeconfig's user its credentials, where the configuration names one that needs that. */
export async function credentialPlugin(
  { source, kubeconfig, master }: Configuration,
): Promise<CredentialPlugin | undefined> {
  if (source.kind !== "kube" || kubeconfig === undefined) return undefined;
  const { pluginOf } = await import("../../sources/kubernetes/mod.ts");
  return await pluginOf(kubeconfig, master);
}

/** Starts what runs a credential plugin, where it is a program. `onLost` is called when that has ended. */
export async function startCredentialPlugin(
  plugin: CredentialPlugin | undefined,
  onLost: (reason: string) => void,
): Promise<RunProgram | undefined> {
  if (plugin?.kind !== "exec") return undefined;
  const { startPluginWorker } = await import("../../workers/mod.ts");
  const { command, args, env } = plugin.exec;
  return startPluginWorker({ program: command, args, env: { ...inheritedEnvironment(), ...env } }, onLost);
}

/** The environment but for LD_…, with which Deno starts no program by name: a plugin needs HOME, AWS_PROFILE and the like. */
function inheritedEnvironment(): Record<string, string> {
  return Object.fromEntries(Object.entries(Deno.env.toObject()).filter(([name]) => !/^(LD|DYLD)_/i.test(name)));
}

/** The variables by which a pod finds its API server, kept for when the environment can be read no more. */
export function inClusterVariables(): (name: string) => string | undefined {
  const kept = new Map(
    ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map((name) => [name, Deno.env.get(name)]),
  );
  return (name) => kept.get(name);
}

/** Gives up the right to start any program, for good. */
export function startNoMorePrograms(): void {
  Deno.permissions.revokeSync({ name: "run" });
}

/**
 * Gives up the right to read and to change the environment, for good, but where client-node is needed: it reads all of it
 * when it is loaded, which is when an `auth-provider` is asked.
 */
export function leaveEnvironment(plugin: CredentialPlugin | undefined): void {
  if (plugin?.kind === "auth-provider") return;
  Deno.permissions.revokeSync({ name: "env" });
}

/** The rights that a run gives up: what each still is, as the runtime tells it. `prompt` and `denied` are none. */
export interface Rights {
  readonly run: Deno.PermissionState;
  readonly write: Deno.PermissionState;
  readonly env: Deno.PermissionState;
}

/** What is left of those rights. */
export function rights(): Rights {
  const state = (name: keyof Rights) => Deno.permissions.querySync({ name }).state;
  return { run: state("run"), write: state("write"), env: state("env") };
}
