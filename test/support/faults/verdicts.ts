/** The outcome of a create request, as its client sees it. */
import { ApiError, NetworkError } from '../../../src/kube/api-error.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { SERVERS, type Cluster } from '../cluster.ts';

export type Verdict =
  | { readonly kind: 'allowed' }
  /** A policy denied it. */
  | { readonly kind: 'refused'; readonly message: string }
  /** There was no decision: the API server could not reach the webhook, or the webhook could not decide. */
  | { readonly kind: 'failed'; readonly message: string };

/** Status codes of a denial by Gatehouse, as opposed to a failure: 403, or 422 if the denial names fields. */
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
