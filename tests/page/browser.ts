/** Chromium without a window, on one page, with an eye on what the page may not do. */
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";

/** Where Debian and others put it. */
const PLACES = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

/** A page in a browser. */
export interface Visit {
  readonly page: Page;
  /** Everything that the page did wrong so far: what its policy stopped, its errors, requests to anybody else. */
  readonly offences: readonly string[];
}

/** Starts the browser that is installed. Throws where there is none. */
export async function startBrowser(): Promise<Browser> {
  const executablePath = PLACES.find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false;
    }
  });
  if (executablePath === undefined) throw new Error("there is no Chromium here: apt-get install chromium");
  // Its sandbox does not start for root, and a container's shared memory is small.
  return await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"] });
}

/** Opens `url` in a context of its own and leaves it when `use` is done. */
export async function visit<T>(
  browser: Browser,
  url: string,
  use: (visit: Visit) => Promise<T>,
  options: BrowserContextOptions = {},
): Promise<T> {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  const offences: string[] = [];
  const { origin } = new URL(url);
  page.on("console", (message) => {
    if (message.type() === "error" || message.text().includes("Content Security Policy")) offences.push(message.text());
  });
  page.on("pageerror", (error) => offences.push(String(error)));
  page.on("request", (request) => {
    const asked = new URL(request.url());
    if (asked.origin !== origin && asked.protocol !== "data:") offences.push(`asked for ${asked}`);
  });
  try {
    await page.goto(url);
    return await use({ page, offences });
  } finally {
    await context.close();
  }
}
