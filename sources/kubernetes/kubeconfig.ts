import { dirname, isAbsolute, join } from "node:path";
import { loadYaml } from "../../platform/mod.ts";
import { type Access, serverUrl } from "./access.ts";
import { execExtension, readExecSection } from "./exec_section.ts";
import type { Material } from "./material.ts";
import type { CredentialPlugin } from "./plugin.ts";

type Section = Readonly<Record<string, unknown>>;

/**
 * The API server and credentials that a kubeconfig file (YAML or JSON) names for its current context; `master` takes
 * the place of its server. Rejects with an Error with the file, and the line where the text is at fault.
 */
export async function readKubeconfig(path: string, master?: string): Promise<Access> {
  const text = readText(path);
  const config = parseJson(text) ?? await parseYaml(path, text);
  const contextName = scalar(config["current-context"]);
  const context = contextName ? named(path, config, "contexts", "context", contextName) : {};
  const clusterName = scalar(context.cluster);
  const userName = scalar(context.user);
  if (!clusterName && master === undefined) {
    throw new Error(
      contextName
        ? `${path}: the context "${contextName}" names no cluster`
        : `${path}: there is no current-context; set one of ${namesIn(config, "contexts")}`,
    );
  }
  const cluster = clusterName ? named(path, config, "clusters", "cluster", clusterName) : {};
  const user = userName ? named(path, config, "users", "user", userName) : {};
  const clusterAt = `${path}: cluster "${clusterName ?? ""}"`;
  const userAt = `${path}: user "${userName ?? ""}"`;

  const server = scalar(cluster.server);
  if (!server && master === undefined) throw new Error(`${clusterAt} has no server`);
  if (cluster["insecure-skip-tls-verify"] === true) {
    throw new Error(
      `${clusterAt}: insecure-skip-tls-verify cannot be honoured, every connection is checked; give the certificate ` +
        "authority of the API server as certificate-authority or certificate-authority-data instead",
    );
  }
  const tlsServerName = scalar(cluster["tls-server-name"]);
  const resolve = (file: string) => isAbsolute(file) ? file : join(dirname(path), file);
  const tokenFile = scalar(user.tokenFile);
  const token = scalar(user.token);
  const certificate = material(user, "client-certificate", resolve, userAt);
  const key = material(user, "client-key", resolve, userAt);
  if ((certificate === undefined) !== (key === undefined)) {
    throw new Error(`${userAt} has a client ${key ? "key" : "certificate"} but no ${key ? "certificate" : "key"}`);
  }
  const url = master ?? serverUrl(server ?? "", clusterAt);
  const ca = material(cluster, "certificate-authority", resolve, clusterAt);
  const proxyUrl = scalar(cluster["proxy-url"]);
  const plugin = (): CredentialPlugin | undefined => {
    const provider = user["auth-provider"];
    // Before there was `exec`, a provider of this name did the same.
    const exec = user.exec ?? (isSection(provider) && isSection(provider.config) ? provider.config.exec : undefined);
    if (isSection(exec)) {
      const about = () => ({ server: url, ca, proxyUrl, config: execExtension(cluster.extensions) });
      return { kind: "exec", exec: readExecSection(path, userName ?? "", exec, about) };
    }
    return provider === undefined ? undefined : { kind: "auth-provider", path, text };
  };
  return {
    server: url,
    ca,
    certificate,
    key,
    token: tokenFile ? { file: resolve(tokenFile) } : token ? { text: token } : undefined,
    proxyUrl,
    headers: [...basicAuthentication(user), ...impersonation(user, userAt)],
    plugin: plugin(),
    warnings: tlsServerName
      ? [
        `${clusterAt}: tls-server-name "${tlsServerName}" cannot be honoured; the API server's certificate must be ` +
        "valid for the host in the server's URL",
      ]
      : [],
  };
}

function readText(path: string): string {
  try {
    return Deno.readTextFileSync(path);
  } catch (error) {
    throw new Error(`the kubeconfig ${path} cannot be read: ${error instanceof Error ? error.message : error}`);
  }
}

/** The object of a text in JSON; undefined for any other, which may be YAML. */
function parseJson(text: string): Section | undefined {
  if (!/^\s*\{/.test(text)) return undefined;
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

async function parseYaml(path: string, text: string): Promise<Section> {
  const { LineCounter, parseDocument } = await loadYaml();
  const lineCounter = new LineCounter();
  const document = parseDocument(text, { lineCounter, intAsBigInt: true, prettyErrors: false });
  const error = document.errors[0];
  if (error) throw new Error(`${path}:${lineCounter.linePos(error.pos[0]).line}: ${error.message}`);
  const config: unknown = document.toJS();
  if (!isSection(config)) throw new Error(`${path}: this is no kubeconfig: it holds no YAML or JSON object`);
  return config;
}

function named(path: string, config: Section, list: string, member: string, name: string): Section {
  const entry = entriesOf(config, list).find((candidate) => scalar(candidate.name) === name);
  if (!entry) throw new Error(`${path}: there is no "${name}" among ${list}, only ${namesIn(config, list)}`);
  const value = entry[member] ?? {};
  if (!isSection(value)) throw new Error(`${path}: "${name}" among ${list} is no object`);
  return value;
}

function entriesOf(config: Section, list: string): Section[] {
  const entries = config[list];
  return Array.isArray(entries) ? entries.filter(isSection) : [];
}

function namesIn(config: Section, list: string): string {
  return entriesOf(config, list).map((entry) => `"${scalar(entry.name)}"`).join(", ") || "none";
}

/** A certificate or key: its `-data` (base64) counts before its file, as with client-go. */
function material(
  section: Section,
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

function basicAuthentication(user: Section): [string, string][] {
  const name = scalar(user.username);
  if (!name) return [];
  const bytes = new TextEncoder().encode(`${name}:${scalar(user.password) ?? ""}`);
  return [["authorization", `Basic ${btoa(String.fromCharCode(...bytes))}`]];
}

/** The headers of https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation */
function impersonation(user: Section, where: string): [string, string][] {
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

/** A scalar as text; a token of digits is one too. */
function scalar(value: unknown): string | undefined {
  return value === undefined || value === null || value === "" || typeof value === "object" ? undefined : String(value);
}

function isSection(value: unknown): value is Section {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
