import { dirname } from "node:path";

/** A kubeconfig whose current user gets credentials from a program (`exec`) or a provider (`auth-provider`). */
export interface CredentialPlugin {
  /** Path of the kubeconfig file, for its relative paths. */
  readonly path: string;
  /** The file's text. */
  readonly text: string;
}

/** What a plugin gave. */
export interface PluginCredentials {
  /** The Authorization header. */
  readonly authorization?: string;
  /** Client certificate and key (PEM). */
  readonly certificate?: string;
  readonly key?: string;
}

/** A plugin at work. */
export interface RunningPlugin {
  /** What it gave last, or gives now where that has expired. Rejects with why it gives nothing. */
  credentials(signal: AbortSignal): Promise<PluginCredentials>;
  /** The server refused what it gave: the next call asks it anew. */
  forget(): void;
}

/** Gets a plugin to work; whoever may not start programs has this done elsewhere. */
export type StartPlugin = (plugin: CredentialPlugin) => RunningPlugin;

/**
 * Plugins run by @kubernetes/client-node in this isolate, which must be allowed to start programs. The package is
 * loaded at the first use only: it costs tens of megabytes that a plain kubeconfig does not need.
 */
export function clientNodePlugins(plugin: CredentialPlugin): RunningPlugin {
  let loaded: Promise<() => Promise<PluginCredentials>> | undefined;
  // Several requests that start together share one run of the plugin.
  let asking: Promise<PluginCredentials> | undefined;
  return {
    credentials(signal) {
      loaded ??= loadClientNode(plugin);
      asking ??= loaded.then((ask) => ask()).finally(() => {
        asking = undefined;
      });
      return unlessAborted(asking, signal);
    },
    forget() {
      loaded = undefined;
    },
  };
}

/** A plugin may wait for a person for as long as it likes; the one who asked need not. */
function unlessAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(signal.reason);
    if (signal.aborted) onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}

async function loadClientNode(plugin: CredentialPlugin): Promise<() => Promise<PluginCredentials>> {
  const { KubeConfig } = await import("@kubernetes/client-node");
  const config = new KubeConfig();
  config.loadFromString(plugin.text);
  config.makePathsAbsolute(dirname(plugin.path));
  const user = config.getCurrentUser();
  const exec: unknown = user?.exec;
  if (isExec(exec)) exec.env = [...exec.env ?? [], { name: "KUBERNETES_EXEC_INFO", value: execInfo(exec.apiVersion) }];
  const forbidden = isExec(exec) ? startingIsForbidden(plugin.path, user?.name, exec.command ?? "") : undefined;
  return async () => {
    if (forbidden !== undefined) throw new Error(forbidden);
    const options: { headers?: Record<string, unknown>; cert?: unknown; key?: unknown } = {};
    try {
      await config.applyToHTTPSOptions(options as Parameters<typeof config.applyToHTTPSOptions>[0]);
    } catch (error) {
      throw new Error(pluginFailed(plugin.path, user?.name, exec, error), { cause: error });
    }
    const { Authorization: authorization } = options.headers ?? {};
    return {
      ...(typeof authorization === "string" ? { authorization } : {}),
      ...(options.cert === undefined ? {} : { certificate: String(options.cert) }),
      ...(options.key === undefined ? {} : { key: String(options.key) }),
    };
  };
}

interface Exec {
  readonly command?: string;
  readonly apiVersion?: string;
  readonly installHint?: string;
  env?: { readonly name: string; readonly value: string }[];
}

function isExec(value: unknown): value is Exec {
  return typeof value === "object" && value !== null;
}

/** client-node's child process would end the whole program over a program that it may not start. */
function startingIsForbidden(path: string, user: string | undefined, command: string): string | undefined {
  if (Deno.permissions.querySync({ name: "run", command }).state === "granted") return undefined;
  return `the credential plugin ${
    JSON.stringify(command)
  } of user "${user}" in ${path} is none that this executable may ` +
    `start: build it with EXEC_PLUGINS=${command} ./compile.sh, or use a kubeconfig with a token or a client certificate`;
}

/** What a plugin is told about its caller, by KEP-541 and client.authentication.k8s.io; client-node leaves it out. */
function execInfo(apiVersion = "client.authentication.k8s.io/v1"): string {
  return JSON.stringify({ kind: "ExecCredential", apiVersion, spec: { interactive: false } });
}

function pluginFailed(path: string, user: string | undefined, exec: unknown, error: unknown): string {
  const reason = (error instanceof Error ? error.message : String(error)).trim();
  const name = isExec(exec) ? `the credential plugin ${JSON.stringify(exec.command)}` : "the auth-provider";
  const hint = isExec(exec) && exec.installHint ? ` (${exec.installHint.trim()})` : "";
  return `${name} of user "${user}" in ${path} failed: ${reason || "no output on standard error"}${hint}`;
}
