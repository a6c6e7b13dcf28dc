import {
  type Clock,
  errorText,
  joinHostPort,
  type Logger,
  readTextWithinSync,
  type RunProgram,
  systemClock,
} from "../../platform/mod.ts";
import {
  type Access,
  createMaterialReader,
  type CredentialPlugin,
  MOST_FILE_BYTES,
  type PluginCredentials,
  type RunningPlugin,
  serverUrl,
} from "./access.ts";
import { ApiError } from "../../core/objects/mod.ts";
import { oidcProvider } from "./oidc.ts";
import { execPlugin } from "./exec_plugin.ts";
import { readKubeconfig } from "./kubeconfig.ts";

/** The credentials of one request. Unchanged texts are the same strings. */
export interface Credentials {
  /** Certificates (PEM) to trust in addition to the system's. */
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
  /** Scheme, host, port and path prefix, without a slash at the end. A changed kubeconfig may replace it after a failure. */
  readonly server: string;
  /** The current credentials; rereads changed files. Throws an ApiError. */
  current(signal: AbortSignal): Promise<Credentials>;
  /**
   * A request failed: the next `current` rereads the kubeconfig if it has changed, and everything else, too, if the
   * credentials were refused (401) or cannot be used.
   */
  failed(areUnusable: boolean): void;
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
  const { kubeconfig, runProgram = runNothing, clock = systemClock } = options;
  const file = kubeconfig === undefined ? undefined : createMaterialReader({ file: kubeconfig });
  const open = (access: Access) => {
    for (const warning of access.warnings) logger.warn(warning);
    return createCredentialSource(access, access.plugin && startPlugin(access.plugin, runProgram, clock));
  };
  const access = await accessOf(options);
  const pluginBefore = JSON.stringify(access.plugin);
  let source = open(access);
  let text = file?.read();
  let isSuspect = false;

  /** Replaces the source if the kubeconfig has changed. The program that it starts cannot be replaced in a running process. */
  const reload = async () => {
    const now = file?.read();
    if (now === text) return;
    const changed = await accessOf(options);
    if (JSON.stringify(changed.plugin) !== pluginBefore) {
      throw new Error(`the credential plugin in ${kubeconfig} has changed; restart the proxy to use it`);
    }
    // Another request may have been faster.
    if (now === text) return;
    text = now;
    source = open(changed);
    logger.info("the kubeconfig has changed, connecting again", { kubeconfig, server: source.server });
  };

  return {
    get server() {
      return source.server;
    },
    async current(signal) {
      if (isSuspect) {
        try {
          await reload();
        } catch (error) {
          throw new ApiError("credentials", `cannot use the changed kubeconfig: ${errorText(error)}`, { cause: error });
        }
        isSuspect = false;
      }
      return await source.current(signal);
    },
    failed(areUnusable) {
      isSuspect = true;
      if (areUnusable) source.failed(true);
    },
  };
}

async function accessOf({ kubeconfig, master, env, serviceAccountFolder }: ConnectionOptions): Promise<Access> {
  if (kubeconfig) return await readKubeconfig(kubeconfig, master);
  if (master) return { ...NOTHING, server: serverUrl(master, "--master") };
  return readInCluster(env ?? ((name) => Deno.env.get(name)), serviceAccountFolder);
}

const NOTHING: Omit<Access, "server"> = {
  ca: undefined,
  serverName: undefined,
  certificate: undefined,
  key: undefined,
  token: undefined,
  proxyUrl: undefined,
  headers: [],
  plugin: undefined,
  warnings: [],
};

function startPlugin(plugin: CredentialPlugin, runProgram: RunProgram, clock: Clock): RunningPlugin {
  return plugin.kind === "exec" ? execPlugin(plugin.exec, runProgram, clock) : oidcProvider(plugin, clock);
}

function runNothing(): Promise<never> {
  return Promise.reject(new Error("this process may not start programs"));
}

/** Printable ASCII: tokens contain nothing else (RFC 6750, section 2.1), and servers accept no longer headers. */
const HEADER_TEXT = /^[\x20-\x7e]{0,65536}$/;

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
        // The runtime would quote such a token in its error, and so would the log.
        if (authorization !== undefined && !HEADER_TEXT.test(authorization)) {
          throw new Error(
            "the token is longer than 64 kB or has characters that HTTP headers may not have, such as line ends",
          );
        }
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
        const message = `cannot read the credentials for ${access.server}: ${errorText(error)}`;
        throw new ApiError("credentials", message, { cause: error });
      }
    },
    failed(areUnusable) {
      refused ||= areUnusable;
    },
  };
}

/** The folder where kubelet mounts a pod's service account. */
const SERVICE_ACCOUNT_FOLDER = "/var/run/secrets/kubernetes.io/serviceaccount";

/** Access from a pod's environment and service account. Throws an Error that lists everything that is missing. */
function readInCluster(env: (name: string) => string | undefined, folder: string = SERVICE_ACCOUNT_FOLDER): Access {
  const host = env("KUBERNETES_SERVICE_HOST");
  const port = env("KUBERNETES_SERVICE_PORT");
  const token = `${folder}/token`;
  const ca = `${folder}/ca.crt`;
  const missing = [
    ...(host ? [] : ["KUBERNETES_SERVICE_HOST"]),
    ...(port ? [] : ["KUBERNETES_SERVICE_PORT"]),
    ...[token, ca].filter((file) => !isReadable(file)),
  ];
  if (!host || !port || missing.length > 0) {
    throw new Error(
      "no source is configured: set --kubeconfig FILE (or clientConnection.kubeconfig in the configuration file), or " +
        "--source file:FOLDER to serve manifests; the service account of a pod cannot be used without " +
        missing.join(", "),
    );
  }
  const server = `https://${joinHostPort(host, Number(port))}`;
  return { ...NOTHING, server, ca: { file: ca }, token: { file: token } };
}

function isReadable(file: string): boolean {
  try {
    return readTextWithinSync(file, MOST_FILE_BYTES).trim() !== "";
  } catch {
    return false;
  }
}
