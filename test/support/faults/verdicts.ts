/** What became of a creation, as its client sees it. */
import { ApiError, NetworkError } from '../../../src/kube/api-error.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { SERVERS, type Cluster } from '../cluster.ts';

export type Verdict =
  | { readonly kind: 'allowed' }
  /** A policy said no. */
  | { readonly kind: 'refused'; readonly message: string }
  /** Nobody decided: the webhook could not be asked, or it could not find out. */
  | { readonly kind: 'failed'; readonly message: string };

/** Tells a refusal of Gatehouse from a failure by its code: 403, or 422 where fields are named. */
const REFUSALS = new Set([403, 422]);

export async function verdictOn(
  cluster: Cluster,
  server: KubeObject,
  { dryRun = true, timeoutMs = 15_000 }: { readonly dryRun?: boolean; readonly timeoutMs?: number } = {},
): Promise<Verdict> {
  try {
    await cluster.admin.create(SERVERS, server, { dryRun, timeoutMs });
    return { kind: 'allowed' };
  } catch (error) {
    if (error instanceof NetworkError) return { kind: 'failed', message: error.message };
    if (!(error instanceof ApiError)) throw error;
    const { code, message } = error;
    return REFUSALS.has(code) ? { kind: 'refused', message } : { kind: 'failed', message };
  }
}
