import { runsFromSource } from "./shipped.ts";
import { KUBERNETES_VERSION, VERSION } from "./version.ts";

/** What this program was made of. */
export interface Build {
  readonly version: string;
  /** The Kubernetes release whose kube-proxy this behaves like. */
  readonly kubernetes: string;
  /** The commit that the executable was made of, `-dirty` at its end where that is not all; `source` from source. */
  readonly commit: string;
  readonly deno: string;
  readonly v8: string;
  /** The versions of the packages inside, by name. */
  readonly dependencies: Readonly<Record<string, string>>;
}

/** What `compile.sh` writes into the executable. */
interface Made {
  readonly commit: string;
  readonly dependencies: Readonly<Record<string, string>>;
}

/** Reads what this program was made of. */
export function readBuild(): Build {
  const { commit, dependencies } = runsFromSource() ? sourceTree() : readJson<Made>("./build.json");
  const { deno, v8 } = Deno.version;
  return { version: VERSION, kubernetes: KUBERNETES_VERSION, commit, deno, v8, dependencies };
}

function sourceTree(): Made {
  const { imports } = readJson<{ readonly imports: Readonly<Record<string, string>> }>("../deno.json");
  const named = Object.values(imports).map((specifier) => /^npm:(@?[^@]+)@([^/]+)/.exec(specifier)!);
  return { commit: "source", dependencies: Object.fromEntries(named.map(([, name, version]) => [name!, version!])) };
}

function readJson<T>(path: string): T {
  return JSON.parse(Deno.readTextFileSync(new URL(path, import.meta.url))) as T;
}
