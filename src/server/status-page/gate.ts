/**
 * Access control of the status page. The API server checks bearer tokens, and its verdicts are cached for some seconds.
 */
import { createHash } from 'node:crypto';

export type Verdict =
  | { readonly kind: 'allowed'; readonly username: string }
  /** The token is not valid. */
  | { readonly kind: 'unauthenticated' }
  | { readonly kind: 'forbidden'; readonly username: string }
  /** The API server did not answer, so neither allow nor refuse. */
  | { readonly kind: 'undecided'; readonly message: string };

export interface GateDeps<Subject extends { readonly username: string }> {
  /** Returns the user of the token, or undefined if it is not valid. Throws if the API server does not answer. */
  readonly authenticate: (token: string) => Promise<Subject | undefined>;
  /** Throws if the API server does not answer. */
  readonly mayLook: (subject: Subject) => Promise<boolean>;
  /** Receives the error behind an `undecided` verdict. */
  readonly onUndecided: (error: unknown) => void;
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number;
}

export interface Gate {
  /** Never throws. */
  readonly judge: (token: string) => Promise<Verdict>;
}

/** How long a verdict is cached, in milliseconds. Revoked access can last this long. */
export const VERDICT_MS = 10_000;
/** The number of cached verdicts. */
const MOST_KEPT = 1_000;
/** Concurrent token checks: clients that send many tokens must not overload the API server. */
export const MOST_AT_ONCE = 8;
/** Tokens of the API server have one or two kilobytes. */
const LONGEST_TOKEN = 16_384;

/** RFC 6750, section 2.1. */
const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/;

export function createGate<Subject extends { readonly username: string }>(deps: GateDeps<Subject>): Gate {
  const kept = new Map<string, { readonly verdict: Verdict; readonly until: number }>();
  const underWay = new Map<string, Promise<Verdict>>();

  const keep = (key: string, verdict: Verdict): void => {
    if (verdict.kind === 'undecided') return;
    kept.delete(key);
    kept.set(key, { verdict, until: deps.now() + VERDICT_MS });
    const [oldest] = kept.keys();
    if (kept.size > MOST_KEPT && oldest !== undefined) kept.delete(oldest);
  };

  const ask = async (key: string, token: string): Promise<Verdict> => {
    try {
      const verdict = await verdictOn(token, deps);
      keep(key, verdict);
      return verdict;
    } finally {
      underWay.delete(key);
    }
  };

  return {
    judge: async (token) => {
      if (token.length > LONGEST_TOKEN || !TOKEN.test(token)) return { kind: 'unauthenticated' };
      const key = createHash('sha256').update(token).digest('base64');
      const known = kept.get(key);
      if (known !== undefined && deps.now() < known.until) return known.verdict;
      const asked = underWay.get(key);
      if (asked !== undefined) return await asked;
      if (underWay.size >= MOST_AT_ONCE)
        return { kind: 'undecided', message: 'too many tokens are being looked at' };
      const asking = ask(key, token);
      underWay.set(key, asking);
      return await asking;
    },
  };
}

async function verdictOn<Subject extends { readonly username: string }>(
  token: string,
  { authenticate, mayLook, onUndecided }: GateDeps<Subject>,
): Promise<Verdict> {
  try {
    const subject = await authenticate(token);
    if (subject === undefined) return { kind: 'unauthenticated' };
    const { username } = subject;
    return (await mayLook(subject)) ? { kind: 'allowed', username } : { kind: 'forbidden', username };
  } catch (error) {
    onUndecided(error);
    // The client may be unauthenticated: the cause is for the log only.
    return { kind: 'undecided', message: 'the API server did not say who may look' };
  }
}
