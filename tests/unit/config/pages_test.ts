import assert from "node:assert/strict";
import { DOCUMENTATION } from "../../../platform/build.ts";
import { HEADER, parse } from "./parse.ts";

const ROOT = new URL("../../../", import.meta.url);

/** The documentation pages, by path. */
function pages(): ReadonlyMap<string, string> {
  const paths = ["README.md", ...[...Deno.readDirSync(new URL("docs", ROOT))].map(({ name }) => `docs/${name}`)];
  return new Map(
    paths.filter((path) => path.endsWith(".md")).map((path) => [path, Deno.readTextFileSync(new URL(path, ROOT))]),
  );
}

/** The sluice command lines that a page shows as code, in blocks or inline, except partial ones with `…`. */
function shownCommands(page: string): readonly string[] {
  const blocks = [...page.matchAll(/^ {4,}(?:\$ )?(?:sudo )?(.*)$/gm)].map(([, line]) => line!.replace(/ +#.*$/, ""));
  const inText = [...page.matchAll(/`([^`\n]+)`/g)].map(([, code]) => code!);
  const pieces = [...blocks, ...inText].flatMap((line) => line.split(/ && |; | \| /));
  return pieces.map((piece) => piece.trim().replace(/^(kubectl .* -- )?(dist\/)?(?=sluice )/, ""))
    .filter((piece) => /^sluice [a-z-]/.test(piece) && !/…|\\$|[A-Z]$|</.test(piece));
}

Deno.test("every command line in the documentation is valid", () => {
  let seen = 0;
  for (const [path, page] of pages()) {
    for (const command of shownCommands(page)) {
      const args = command.split(/\s+/).slice(1).map((word) => word.replaceAll(/^["']|["']$/g, ""));
      const files = Object.fromEntries(args.map((arg) => [arg.replace(/^--config=/, ""), HEADER]));
      // The text also mentions commands by name alone.
      const line = args.length === 1 ? parse([...args, "--help"]) : parse(args, { files });
      assert(line.kind !== "errors", `${path}: ${command}: ${line.kind === "errors" ? line.errors.join("; ") : ""}`);
      seen++;
    }
  }
  assert(seen > 30, `only ${seen} were found`);
});

Deno.test("every linked file exists", () => {
  for (const [path, page] of pages()) {
    for (const [, target] of page.matchAll(/\]\((?!https?:|#)([^)#\s]+)(?:#[^)]*)?\)/g)) {
      Deno.statSync(new URL(target!, new URL(path, ROOT)));
    }
  }
});

Deno.test("docs/security.md names tests that exist for what a tenant can do to others", () => {
  const [, section = ""] = pages().get("docs/security.md")!.split("## What a tenant can do to others\n");
  const rows = section.split("\n## ")[0]!.split("\n").filter((line) => line.startsWith("|")).slice(2);
  assert.ok(rows.length > 10, `${rows.length} rows`);
  for (const row of rows) {
    const [, file, name] = /\| `([^`]+)`: "(.+)" \|$/.exec(row) ?? assert.fail(`no test: ${row}`);
    const tests = Deno.readTextFileSync(new URL(`tests/unit/${file}`, ROOT));
    assert.ok(tests.includes(`"${name}"`), `${file} has no test "${name}"`);
  }
});

Deno.test("the README and CONTRIBUTING.md name the address that executables have by default", () => {
  const address = DOCUMENTATION.replace(/\/blob\/.*/, "");
  const contributing = Deno.readTextFileSync(new URL("CONTRIBUTING.md", ROOT));
  for (const text of [pages().get("README.md")!, contributing]) assert.ok(text.includes(address), address);
});

Deno.test("every task that tests is in CONTRIBUTING.md's list of suites, and only there", () => {
  const { tasks } = JSON.parse(Deno.readTextFileSync(new URL("deno.json", ROOT)));
  const contributing = Deno.readTextFileSync(new URL("CONTRIBUTING.md", ROOT));
  for (const name of Object.keys(tasks).filter((name) => name.startsWith("test"))) {
    assert.match(contributing, new RegExp(`^\\| .*\`${name}( [^\`]*)?\``, "m"), name);
    assert.doesNotMatch(pages().get("README.md")!, new RegExp(`^\\| .*\`${name}\``, "m"), name);
  }
});
