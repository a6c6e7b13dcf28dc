/** Version of this program, its build, and the files shipped inside it. */

/** Sluice's version. */
export const VERSION = "0.2.0";

/** The Kubernetes release whose kube-proxy this version behaves like. */
export const KUBERNETES_VERSION = "v1.37.2";

/** Address of the repository. `compile.sh` writes `REPOSITORY_URL` here if that is set. */
const REPOSITORY = "https://sluice.example/sluice";

/** Address of the folder with this version's documentation. */
export const DOCUMENTATION = `${REPOSITORY}/blob/v${VERSION}/docs`;

/** Shipped files by name, as paths in the source tree; `compile.sh` puts them next to the code in the executable. */
const SHIPPED = {
  "sluice.service": "../deploy/sluice.service",
  "sluice.openrc": "../deploy/sluice.openrc",
  "rbac.yaml": "../deploy/rbac.yaml",
  "sites.yaml": "../deploy/sites.yaml",
  "config.yaml": "../deploy/config.yaml",
} as const;

/** Versions of this program and its parts. */
interface Build {
  readonly version: string;
  /** The Kubernetes release whose kube-proxy this version behaves like. */
  readonly kubernetes: string;
  /** Commit of the build, with suffix `-dirty` if the tree had changes; `source` when running from source. */
  readonly commit: string;
  readonly deno: string;
  readonly v8: string;
  /** Versions of the bundled packages by name. */
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Content of build.json, which `compile.sh` puts into the executable. */
type BuildFile = Pick<Build, "commit" | "dependencies">;

/** Whether this program runs from source rather than from an executable. */
export function runsFromSource(): boolean {
  return import.meta.url.endsWith(".ts");
}

/** Returns the text of a shipped file. */
export function shippedText(name: keyof typeof SHIPPED): string {
  return Deno.readTextFileSync(new URL(runsFromSource() ? SHIPPED[name] : `./${name}`, import.meta.url));
}

/** Returns the versions of this program and its parts. */
export function readBuild(): Build {
  const { commit, dependencies } = runsFromSource() ? sourceTree() : readJson<BuildFile>("./build.json");
  const { deno, v8 } = Deno.version;
  return { version: VERSION, kubernetes: KUBERNETES_VERSION, commit, deno, v8, dependencies };
}

function sourceTree(): BuildFile {
  const { imports } = readJson<{ readonly imports: Readonly<Record<string, string>> }>("../deno.json");
  const pinned = Object.values(imports).map((specifier) => /^npm:(@?[^@]+)@([^/]+)/.exec(specifier)!);
  return { commit: "source", dependencies: Object.fromEntries(pinned.map(([, name, version]) => [name!, version!])) };
}

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(path, import.meta.url))) as T;
}
