import { type Clock, type Logger, type RunProgram, systemClock } from "../../platform/mod.ts";
import { type Access, serverUrl } from "./access.ts";
import { ApiError } from "./api_error.ts";
import { authProvider } from "./auth_provider.ts";
import { execPlugin } from "./exec_plugin.ts";
import { readInCluster } from "./in_cluster.ts";
import { readKubeconfig } from "./kubeconfig.ts";
import { createMaterialReader } from "./material.ts";
import type { CredentialPlugin, PluginCredentials, RunningPlugin } from "./plugin.ts";

/** The credentials of one request. Unchanged texts are the same strings. */
export interface Credentials {
  /** Certificates (PEM) to trust besides the system's. */
  readonly caCerts: string | undefined;
  /** The name in the server's certificate, if it is not the host in its URL. */
  readonly serverName: string | undefined;
  /** The client certificate and its key (PEM). */
  readonly certificate: string | undefined;
  readonly key: string | undefined;
  readonly proxyUrl: string | undefined;
  /** Authorization and impersonation. */
  readonly headers: readonly [name: string, value: string][];
}

/** The API server's URL and current credentials. */
export interface CredentialSource {
  /** Scheme, host, port and path prefix, without a slash at the end. */
  readonly server: string;
  /** The current credentials; rereads changed files. Throws an ApiError. */
  current(signal: AbortSignal): Promise<Credentials>;
  /** The server answered 401: the next `current` reloads everything. */
  refused(): void;
}

/** The options that locate the API server. */
export interface ConnectionOptions {
  /** Path of a kubeconfig file (`clientConnection.kubeconfig`, `--kubeconfig`). */
  readonly kubeconfig?: string;
  /** Overrides the API server's URL in the kubeconfig (`--master`). */
  readonly master?: string;
  /** The environment, for the in-cluster address; the process's by default. */
  readonly env?: (name: string) => string | undefined;
  /** The folder of a pod's service account; kubelet's mount by default. */
  readonly serviceAccountFolder?: string;
  /** Runs the credential plugin of a kubeconfig; without it, such a kubeconfig cannot be used. */
  readonly runProgram?: RunProgram;
  readonly clock?: Clock;
}

/**
 * Finds the API server and its credentials: the kubeconfig file, else `master` alone, else the pod's service account
 * (kube-proxy's order). Rejects with an Error that lists everything that is missing.
 */
export async function loadCredentials(options: ConnectionOptions, logger: Logger): Promise<CredentialSource> {
  const access = await accessOf(options);
  for (const warning of access.warnings) logger.warn(warning);
  const { runProgram = runNothing, clock = systemClock } = options;
  return createCredentialSource(access, access.plugin && startPlugin(access.plugin, runProgram, clock));
}

async function accessOf(options: ConnectionOptions): Promise<Access> {
  const master = options.master ? serverUrl(options.master, "--master") : undefined;
  if (options.kubeconfig) return await readKubeconfig(options.kubeconfig, master);
  if (master === undefined) {
    return readInCluster(options.env ?? ((name) => Deno.env.get(name)), options.serviceAccountFolder);
  }
  const nothing = { ca: undefined, certificate: undefined, key: undefined, token: undefined, plugin: undefined };
  return { server: master, ...nothing, serverName: undefined, proxyUrl: undefined, headers: [], warnings: [] };
}

function startPlugin(plugin: CredentialPlugin, runProgram: RunProgram, clock: Clock): RunningPlugin {
  return plugin.kind === "exec" ? execPlugin(plugin.exec, runProgram, clock) : authProvider(plugin);
}

function runNothing(): Promise<never> {
  return Promise.reject(new Error("this process may not start programs"));
}

function createCredentialSource(access: Access, plugin: RunningPlugin | undefined): CredentialSource {
  const texts = [access.ca, access.certificate, access.key, access.token].map((material) =>
    material === undefined ? undefined : createMaterialReader(material)
  );
  const [ca, certificate, key, token] = texts;
  let refused = false;

  return {
    server: access.server,
    async current(signal) {
      if (refused) {
        refused = false;
        for (const text of texts) text?.forget();
        plugin?.forget();
      }
      try {
        const bearer = token?.read().trim();
        const fromPlugin: PluginCredentials = await plugin?.credentials(signal) ?? {};
        const authorization = bearer ? `Bearer ${bearer}` : fromPlugin.authorization;
        return {
          caCerts: ca?.read(),
          serverName: access.serverName,
          certificate: fromPlugin.certificate ?? certificate?.read(),
          key: fromPlugin.key ?? key?.read(),
          proxyUrl: access.proxyUrl,
          headers: authorization === undefined ? access.headers : [
            ...access.headers.filter(([name]) => name !== "authorization"),
            ["authorization", authorization],
          ],
        };
      } catch (error) {
        signal.throwIfAborted();
        const message = error instanceof Error ? error.message : String(error);
        throw new ApiError(
          "credentials",
          `cannot read the credentials for ${access.server}: ${message}; retrying`,
          { cause: error },
        );
      }
    },
    refused() {
      refused = true;
    },
  };
}
