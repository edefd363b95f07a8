/** Who may look at the status page: a bearer token is judged by the API server, and its answer kept for some seconds. */
import { createHash } from 'node:crypto';

export type Verdict =
  | { readonly kind: 'allowed'; readonly username: string }
  /** It is nobody's token. */
  | { readonly kind: 'unauthenticated' }
  | { readonly kind: 'forbidden'; readonly username: string }
  /** Nobody could say: neither yes nor no. */
  | { readonly kind: 'undecided'; readonly message: string };

export interface GateDeps<Subject extends { readonly username: string }> {
  /** Whose token it is; undefined: nobody's. Throws when that cannot be found out. */
  readonly authenticate: (token: string) => Promise<Subject | undefined>;
  /** Throws when that cannot be found out. */
  readonly mayLook: (subject: Subject) => Promise<boolean>;
  /** Told why nothing could be decided. */
  readonly onUndecided: (error: unknown) => void;
  /** Milliseconds that never go back. */
  readonly now: () => number;
}

export interface Gate {
  /** Never throws. */
  readonly judge: (token: string) => Promise<Verdict>;
}

/** How long an answer holds, in milliseconds: so long may somebody go on whose permission was taken away. */
export const VERDICT_MS = 10_000;
/** Tokens whose verdict is kept. */
const MOST_KEPT = 1_000;
/** Tokens that the API server is asked about at a time: whoever sends many must not make us a burden to it. */
export const MOST_AT_ONCE = 8;
/** Tokens of API servers have one or two kilobytes. */
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
    // Why is for the log: whoever asks may be anybody.
    return { kind: 'undecided', message: 'the API server did not say who may look' };
  }
}
