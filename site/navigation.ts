/** The navigation of the site: which Markdown files are pages, in which group and order. */

/** A page of the site. */
export interface Page {
  /** Path of the Markdown file in the repository. */
  readonly source: string;
  /** Path in the site, as a Markdown file. */
  readonly path: string;
  /** Short name in the navigation. */
  readonly name: string;
}

/** Pages under one heading of the navigation. */
export interface Group {
  readonly name: string;
  readonly pages: readonly Page[];
}

/** Per group, Markdown files with the page's name. */
const GROUPS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "Start": { "README.md": "Overview", "docs/differences.md": "Differences from kube-proxy" },
  "Operate": {
    "docs/operate.md": "Operate",
    "docs/sizing.md": "Size a node",
    "docs/troubleshoot.md": "Troubleshoot",
    "docs/explain.md": "Explain connections",
    "docs/traffic.md": "Traffic",
    "docs/health.md": "Health",
    "docs/problems.md": "Problems",
    "docs/scale.md": "Many nodes",
    "docs/edge.md": "Edge nodes",
    "docs/sites.md": "Sites",
    "docs/failover.md": "Dead nodes",
    "docs/security.md": "Security",
  },
  "Migrate": {
    "docs/versions.md": "Supported versions",
    "docs/compatibility.md": "Compatibility",
    "docs/migrate.md": "Migrate",
    "docs/upgrade.md": "Upgrade",
    "CHANGELOG.md": "Changelog",
  },
  "Reference": {
    "docs/balance.md": "Choosing endpoints",
    "docs/node-ports.md": "Node ports by Service",
    "docs/userspace.md": "Userspace mode",
    "docs/ipvs.md": "IPVS mode",
    "docs/wire.md": "gRPC protocol",
  },
  "Internals": {
    "ARCHITECTURE.md": "Architecture",
    "docs/performance.md": "Performance",
    "docs/bottlenecks.md": "Bottlenecks",
    "docs/reliability.md": "Reliability",
    "CONTRIBUTING.md": "Contributing",
    "SECURITY.md": "Report a vulnerability",
    "docs/licences.md": "Licences",
  },
};

/** The group of pages in docs/ that are in no group. */
const OTHERS = "Reference";

/** Returns the navigation, for the names of the files in docs/. Throws if one that it lists is missing. */
export function navigation(docs: readonly string[]): readonly Group[] {
  const sources = docs.filter((name) => name.endsWith(".md")).map((name) => `docs/${name}`).sort();
  const listed = Object.values(GROUPS).flatMap((pages) => Object.keys(pages));
  const missing = listed.find((source) => source.startsWith("docs/") && !sources.includes(source));
  if (missing !== undefined) {
    throw new Error(`site/navigation.ts lists ${missing}, which does not exist: remove it there`);
  }
  const further = sources.filter((source) => !listed.includes(source));
  return Object.entries(GROUPS).map(([name, pages]) => ({
    name,
    pages: [
      ...Object.entries(pages),
      ...(name === OTHERS ? further.map((source) => [source, nameOf(source)] as const) : []),
    ].map(([source, name]) => ({ source, path: pathOf(source), name })),
  }));
}

function nameOf(source: string): string {
  const name = source.replace(/^.*\/|\.md$/g, "").replaceAll(/[-_]/g, " ");
  return name.charAt(0).toUpperCase() + name.slice(1);
}

function pathOf(source: string): string {
  if (source === "README.md") return "index.md";
  // On file systems that ignore case, it would overwrite docs/security.md.
  if (source === "SECURITY.md") return "vulnerabilities.md";
  return source.replace(/^docs\//, "").toLowerCase();
}
