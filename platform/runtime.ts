/** The first Deno whose HTTP/2 can be relied upon: in 2.4 its server hangs, and its client knows no other authorities. */
const LEAST = [2, 9] as const;

/** Whether this runtime's HTTP/2 can be relied upon; `version` is `major.minor.patch`. */
export function hasHttp2(version: string = Deno.version.deno): boolean {
  const [major = 0, minor = 0] = version.split(".").map(Number);
  return major > LEAST[0] || (major === LEAST[0] && minor >= LEAST[1]);
}

/** Throws an Error that says so where this runtime is too old for `what`; `version` is `major.minor.patch`. */
export function requireHttp2(what: string, version: string = Deno.version.deno): void {
  if (hasHttp2(version)) return;
  throw new Error(
    `${what} needs the HTTP/2 of Deno ${LEAST.join(".")} or later, and this is ${version}: ` +
      "run Sluice from source with a newer deno, or compile it with one",
  );
}
