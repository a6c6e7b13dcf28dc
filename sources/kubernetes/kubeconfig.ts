import { isRawObject, type RawObject } from "../../core/objects/mod.ts";
import { dirname, fileErrorText, loadYaml, parseJsonObject, pathIn, readTextWithinSync } from "../../platform/mod.ts";
import {
  type Access,
  createMaterialReader,
  type CredentialPlugin,
  type Material,
  MOST_FILE_BYTES,
  serverUrl,
} from "./access.ts";
import { execExtension, readExecSection } from "./exec_plugin.ts";

/** A mistake in a kubeconfig, and its fix; the message contains both. */
export class KubeconfigError extends Error {
  constructor(readonly mistake: string, readonly fix: string) {
    super(`${mistake}; ${fix}`);
    this.name = "KubeconfigError";
  }
}

/**
 * Reads the API server and credentials of the current context from a kubeconfig file (YAML or JSON); the URL in `url` overrides
 * the server's. Rejects with an Error that names the file, and the line of a syntax error.
 */
export async function readKubeconfig(path: string, url?: string): Promise<Access> {
  const master = url ? serverUrl(url, "--master") : undefined;
  const text = readText(path);
  const config = parseJsonObject(text) ?? await parseYaml(path, text);
  const contextName = scalar(config["current-context"]);
  const context = contextName ? named(path, config, "contexts", "context", contextName) : {};
  const clusterName = scalar(context.cluster);
  const userName = scalar(context.user);
  if (!clusterName && master === undefined) {
    throw new Error(
      contextName
        ? `${path}: the context "${contextName}" has no cluster`
        : `${path}: no current-context is set; the contexts in it: ${namesIn(config, "contexts")}`,
    );
  }
  const cluster = clusterName ? named(path, config, "clusters", "cluster", clusterName) : {};
  const user = userName ? named(path, config, "users", "user", userName) : {};
  const clusterAt = `${path}: cluster "${clusterName ?? ""}"`;
  const userAt = `${path}: user "${userName ?? ""}"`;

  const server = scalar(cluster.server);
  if (!server && master === undefined) throw new Error(`${clusterAt} has no server`);
  if (cluster["insecure-skip-tls-verify"] === true) {
    throw new KubeconfigError(
      `${clusterAt}: insecure-skip-tls-verify is not supported`,
      "set certificate-authority or certificate-authority-data to the CA of the API server instead",
    );
  }
  const resolve = (file: string) => pathIn(dirname(path), file);
  const tokenFile = scalar(user.tokenFile);
  const token = scalar(user.token);
  const certificate = material(user, "client-certificate", resolve, userAt);
  const key = material(user, "client-key", resolve, userAt);
  if ((certificate === undefined) !== (key === undefined)) {
    throw new Error(`${userAt} has a client ${key ? "key" : "certificate"} but no ${key ? "certificate" : "key"}`);
  }
  const usedUrl = master ?? serverUrl(server ?? "", clusterAt);
  const ca = material(cluster, "certificate-authority", resolve, clusterAt);
  const proxyUrl = scalar(cluster["proxy-url"]);
  // As in client-go, an overridden server has a name of its own.
  const tlsServerName = master === undefined && usedUrl.startsWith("https:")
    ? scalar(cluster["tls-server-name"])
    : undefined;
  const serverName = proxyUrl === undefined ? tlsServerName : undefined;
  const plugin = (): CredentialPlugin | undefined => {
    const provider = user["auth-provider"];
    // The predecessor of `exec`.
    const exec = user.exec ??
      (isRawObject(provider) && isRawObject(provider.config) ? provider.config.exec : undefined);
    if (isRawObject(exec)) {
      const about = () => ({ server: usedUrl, ca, serverName, proxyUrl, config: execExtension(cluster.extensions) });
      return { kind: "exec", exec: readExecSection(path, userName ?? "", exec, about) };
    }
    if (!isRawObject(provider)) return undefined;
    const settings = isRawObject(provider.config) ? Object.entries(provider.config) : [];
    const config = Object.fromEntries(settings.map(([name, value]) => [name, scalar(value)]));
    return { kind: "auth-provider", where: userAt, name: scalar(provider.name), config };
  };
  return {
    server: usedUrl,
    ca,
    certificate,
    key,
    serverName,
    token: tokenFile ? { file: resolve(tokenFile) } : token ? { text: token } : undefined,
    proxyUrl,
    headers: [...basicAuthentication(user), ...impersonation(user, userAt)],
    plugin: plugin(),
    warnings: tlsServerName !== serverName
      ? [
        `${clusterAt}: tls-server-name "${tlsServerName}" is not supported together with proxy-url; the API server's ` +
        "certificate must be valid for the host in the server's URL",
      ]
      : [],
  };
}

/** The API server of a kubeconfig. */
export interface ApiServer {
  /** Scheme, host, port and path prefix, without a slash at the end. */
  readonly server: string;
  /** The certificates (PEM) that it is verified with; undefined for the system's. */
  readonly ca: string | undefined;
  /** The name in its certificate, if it is not the host in its URL. */
  readonly serverName: string | undefined;
}

/** Reads the API server of a kubeconfig's current context; `master` overrides its URL. Rejects as `readKubeconfig` does. */
export async function readApiServer(kubeconfig: string, master: string | undefined): Promise<ApiServer> {
  const { server, ca, serverName } = await readKubeconfig(kubeconfig, master);
  return { server, ca: ca && createMaterialReader(ca).read(), serverName };
}

/** The credential plugin of a kubeconfig's user; undefined without one or if the file cannot be read. */
export async function pluginOf(kubeconfig: string, master: string | undefined): Promise<CredentialPlugin | undefined> {
  try {
    return (await readKubeconfig(kubeconfig, master)).plugin;
  } catch {
    return undefined;
  }
}

function readText(path: string): string {
  try {
    return readTextWithinSync(path, MOST_FILE_BYTES);
  } catch (error) {
    throw new Error(`cannot read the kubeconfig ${path}: ${fileErrorText(error)}`);
  }
}

async function parseYaml(path: string, text: string): Promise<RawObject> {
  const { parseTree, plainData } = await loadYaml();
  const { documents: [document], errors: [error] } = parseTree(text, { uniqueKeys: true });
  if (error !== undefined) throw new Error(`${path}:${error.line}: ${error.message}`);
  const config = document && plainData(document);
  if (!isRawObject(config)) throw new Error(`${path}: not a kubeconfig: it contains no YAML or JSON object`);
  return config;
}

function named(path: string, config: RawObject, list: string, member: string, name: string): RawObject {
  const entry = entriesOf(config, list).find((candidate) => scalar(candidate.name) === name);
  if (!entry) throw new Error(`${path}: no "${name}" in ${list}, only ${namesIn(config, list)}`);
  const value = entry[member] ?? {};
  if (!isRawObject(value)) throw new Error(`${path}: "${name}" in ${list} is not an object`);
  return value;
}

function entriesOf(config: RawObject, list: string): RawObject[] {
  const entries = config[list];
  return Array.isArray(entries) ? entries.filter(isRawObject) : [];
}

function namesIn(config: RawObject, list: string): string {
  return entriesOf(config, list).map((entry) => `"${scalar(entry.name)}"`).join(", ") || "none";
}

/** A certificate or key. As in client-go, its `-data` (base64) takes precedence over its file. */
function material(
  section: RawObject,
  field: string,
  resolve: (file: string) => string,
  where: string,
): Material | undefined {
  const data = scalar(section[`${field}-data`]);
  const file = scalar(section[field]);
  if (!data) return file ? { file: resolve(file) } : undefined;
  try {
    return { text: atob(data.replace(/\s/g, "")) };
  } catch {
    throw new Error(`${where}: ${field}-data is not base64`);
  }
}

function basicAuthentication(user: RawObject): [string, string][] {
  const name = scalar(user.username);
  if (!name) return [];
  const bytes = new TextEncoder().encode(`${name}:${scalar(user.password) ?? ""}`);
  return [["authorization", `Basic ${bytes.toBase64()}`]];
}

/** The headers of https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation */
function impersonation(user: RawObject, where: string): [string, string][] {
  const as = scalar(user.as);
  const uid = scalar(user["as-uid"]);
  const groups = Array.isArray(user["as-groups"]) ? user["as-groups"].map(String) : [];
  if (!as) {
    if (groups.length > 0 || uid) throw new Error(`${where} has as-groups or as-uid but no "as"`);
    return [];
  }
  return [
    ["impersonate-user", as],
    ...groups.map((group): [string, string] => ["impersonate-group", group]),
    ...(uid ? [["impersonate-uid", uid] satisfies [string, string]] : []),
  ];
}

/** A scalar as a string; a token may consist of digits. */
function scalar(value: unknown): string | undefined {
  return value === undefined || value === null || value === "" || typeof value === "object" ? undefined : String(value);
}
