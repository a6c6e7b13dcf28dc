import { contributionOf } from "./contribution.ts";
import type { Listing } from "./listing.ts";
import { chainText, type Shadow } from "./shadow.ts";
import { declarationText, declareSets, type Dialect } from "./table.ts";

/** What this host's nft prints in other words than they are written here, which is no difference. */
export interface Spellings {
  /** The text that a set's or a chain's text, as it was read, stands for. */
  written(name: string, read: string): string;
  /** Takes a listing in, with what was believed of the kernel before it. */
  note(listing: Listing | undefined, before: Shadow | undefined): void;
  /** Whether the last listing showed chains that may only be spelled otherwise. */
  areInQuestion(): boolean;
  /** Takes in a listing right after those chains were written anew. Returns how many of them are only spelled otherwise. */
  learn(listing: Listing | undefined): number;
}

interface Spelling {
  readonly read: string;
  readonly written: string;
}

/** The spellings of a host of which none are known. */
export function createSpellings(dialect: Dialect): Spellings {
  const known = new Map<string, Spelling>();
  let inQuestion = new Map<string, Spelling>();

  const written = (name: string, read: string) => {
    const spelling = known.get(name);
    return spelling?.read === read ? spelling.written : read;
  };

  /** A set cannot be changed in place: where it reads otherwise than it was made, it is spelled so. */
  function learnDeclarations(listing: Listing): void {
    for (const [name, declaration] of declareSets(dialect)) {
      const read = listing.declarations.get(name), text = declarationText(declaration);
      if (read !== undefined && read !== text) known.set(name, { read, written: text });
    }
  }

  return {
    written,
    note(listing, before) {
      inQuestion = new Map();
      if (!listing || !before) return;
      if (before.sets === "complete") learnDeclarations(listing);
      for (const [name, text] of chainTexts(before, dialect)) {
        const read = listing.chains.get(name);
        if (read === undefined || written(name, read) === text || countLines(read) !== countLines(text)) continue;
        inQuestion.set(name, { read, written: text });
      }
    },
    areInQuestion: () => inQuestion.size > 0,
    learn(listing) {
      let learned = 0;
      for (const [name, spelling] of inQuestion) {
        // What reads right after its repair as it read before was not changed by anybody.
        if (listing?.chains.get(name) !== spelling.read) continue;
        known.set(name, spelling);
        learned++;
      }
      inQuestion = new Map();
      return learned;
    },
  };
}

/** The texts of all chains that are believed to be there. */
function* chainTexts(shadow: Shadow, dialect: Dialect): Generator<readonly [string, string]> {
  yield* shadow.chains;
  for (const { port, settings } of shadow.applied.values()) {
    if (port.affinitySeconds === 0) continue;
    for (const { name, rules } of contributionOf(port, settings, dialect).ownChains) {
      yield [name, chainText(undefined, rules)];
    }
  }
}

function countLines(text: string): number {
  return text.split("\n").length;
}
