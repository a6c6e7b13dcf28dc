/** Headless Chromium on one page, recording violations. */
import { inTime, TIMEOUT_FACTOR } from "../chaos/wait.ts";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** The paths of Chromium and Chrome on common distributions. */
const PATHS = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** Limit of each step in the browser, in milliseconds: long enough beside other work on a busy machine. */
const TIMEOUT = 60_000;

/** A page in a browser. */
export interface Visit {
  readonly page: Page;
  /** Violations so far: blocked by the Content Security Policy, script errors, requests to other origins. */
  readonly violations: readonly string[];
}

/** Runs a test with the installed browser. Throws if there is none, or if it does not end. */
export async function withBrowser(test: (browser: Browser) => Promise<void>): Promise<void> {
  const browser = await startBrowser();
  try {
    await test(browser);
  } finally {
    await inTime("the browser ends", TIMEOUT, browser.close());
  }
}

/** Starts the installed browser; throws if there is none. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = PATHS.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
  if (executablePath === undefined) throw new Error("Chromium is not installed (apt-get install chromium)");
  // Chromium's sandbox does not work as root, and a container's /dev/shm is too small for it.
  const args = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"];
  return await chromium.launch({ executablePath, args, timeout: TIMEOUT * TIMEOUT_FACTOR });
}

/** Opens `url` in a new browser context and closes the context when `use` has finished. */
export async function visit<T>(
  browser: Browser,
  url: string,
  use: (visit: Visit) => Promise<T>,
  options: BrowserContextOptions = {},
): Promise<T> {
  const context = await browser.newContext(options);
  context.setDefaultTimeout(TIMEOUT * TIMEOUT_FACTOR);
  const page = await context.newPage();
  const violations: string[] = [];
  const { origin } = new URL(url);
  page.on("console", (message) => {
    if (message.type() === "error" || message.text().includes("Content Security Policy")) {
      violations.push(message.text());
    }
  });
  page.on("pageerror", (error) => violations.push(String(error)));
  page.on("request", (request) => {
    const target = new URL(request.url());
    if (target.origin !== origin && target.protocol !== "data:") violations.push(`request to ${target}`);
  });
  try {
    await page.goto(url);
    return await use({ page, violations });
  } finally {
    await inTime("the browser closes the page", TIMEOUT, context.close());
  }
}
