/** The API server checks bearer tokens, and its verdicts are cached for some seconds. */
import { createHash } from 'node:crypto';

export type Verdict =
  | { readonly kind: 'allowed'; readonly username: string }
  | { readonly kind: 'unauthenticated' }
  | { readonly kind: 'forbidden'; readonly username: string }
  /** The API server did not answer, so neither allow nor refuse. */
  | { readonly kind: 'undecided'; readonly message: string };

export type CheckAccess = (token: string) => Promise<Verdict>;

/** How long a verdict is cached, in milliseconds. Revoked access can last this long. */
export const VERDICT_MS = 10_000;
const MAX_CACHED = 1_000;
/** Concurrent token checks: clients that send many tokens must not overload the API server. */
export const MAX_CONCURRENT = 8;
const MAX_TOKEN_LENGTH = 16_384;

/** RFC 6750, section 2.1. */
const TOKEN = /^[A-Za-z0-9\-._~+/]+=*$/;

export function createAccessCheck<Subject extends { readonly username: string }>(
  authenticate: (token: string) => Promise<Subject | undefined>,
  mayView: (subject: Subject) => Promise<boolean>,
  onUndecided: (error: unknown) => void,
  now: () => number,
): CheckAccess {
  const cached = new Map<string, { readonly verdict: Verdict; readonly until: number }>();
  const inFlight = new Map<string, Promise<Verdict>>();

  const judge = async (token: string): Promise<Verdict> => {
    try {
      const subject = await authenticate(token);
      if (subject === undefined) return { kind: 'unauthenticated' };
      const { username } = subject;
      return (await mayView(subject)) ? { kind: 'allowed', username } : { kind: 'forbidden', username };
    } catch (error) {
      onUndecided(error);
      // The client may be unauthenticated: the cause is for the log only.
      return { kind: 'undecided', message: 'the API server could not check the token' };
    }
  };
  const judgeAndCache = async (key: string, token: string): Promise<Verdict> => {
    const verdict = await judge(token).finally(() => inFlight.delete(key));
    if (verdict.kind === 'undecided') return verdict;
    cached.delete(key);
    cached.set(key, { verdict, until: now() + VERDICT_MS });
    const [oldest] = cached.keys();
    if (cached.size > MAX_CACHED && oldest !== undefined) cached.delete(oldest);
    return verdict;
  };

  return async (token) => {
    if (token.length > MAX_TOKEN_LENGTH || !TOKEN.test(token)) return { kind: 'unauthenticated' };
    const key = createHash('sha256').update(token).digest('base64');
    const known = cached.get(key);
    if (known !== undefined && now() < known.until) return known.verdict;
    const same = inFlight.get(key);
    if (same !== undefined) return await same;
    if (inFlight.size >= MAX_CONCURRENT)
      return { kind: 'undecided', message: 'too many tokens are being checked' };
    const judging = judgeAndCache(key, token);
    inFlight.set(key, judging);
    return await judging;
  };
}
