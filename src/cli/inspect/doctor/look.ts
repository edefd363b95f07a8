/** What became of looking at something: a check that could not be made must not stop the rest. */
import { ApiError, isNotFound } from '../../../kube/api-error.ts';
import { sentenceOf } from '../../../json/error-message.ts';
import type { Finding } from './finding.ts';

/** A right that RBAC gives. */
export interface Permission {
  readonly verb: string;
  /** As RBAC has it, e.g. `leases.coordination.k8s.io`. */
  readonly resource: string;
  /** Undefined: in all namespaces, or cluster-scoped. */
  readonly namespace?: string;
}

export type Look<T> =
  | { readonly kind: 'seen'; readonly value: T }
  | { readonly kind: 'forbidden'; readonly permission: Permission }
  | { readonly kind: 'failed'; readonly message: string };

export const seen = <T>(value: T): Look<T> => ({ kind: 'seen', value });

/** Never throws. A kind that is not served has no objects: `absent` stands for that. */
export async function look<T>(permission: Permission, read: () => Promise<T>, absent?: T): Promise<Look<T>> {
  try {
    return seen(await read());
  } catch (error) {
    if (absent !== undefined && isNotFound(error)) return seen(absent);
    return lookFailed(permission, error);
  }
}

export function lookFailed(permission: Permission, error: unknown): Look<never> {
  if (error instanceof ApiError && error.code === 403) return { kind: 'forbidden', permission };
  return { kind: 'failed', message: sentenceOf(error) };
}

/** The findings of `judge`; `unknown` with the reason when there is nothing to judge. */
export function judgeLook<T>(
  check: string,
  looked: Look<T>,
  judge: (value: T) => readonly Finding[],
): readonly Finding[] {
  switch (looked.kind) {
    case 'seen':
      return judge(looked.value);
    case 'forbidden':
      return [unknown(check, looked.permission)];
    case 'failed':
      return [
        {
          check,
          severity: 'unknown',
          seen: looked.message,
          next: 'run it again; if it stays, look at the API server',
        },
      ];
  }
}

function unknown(check: string, { verb, resource, namespace }: Permission): Finding {
  const where = namespace === undefined ? '' : ` in the namespace ${namespace}`;
  const flag = namespace === undefined ? '' : ` -n ${namespace}`;
  return {
    check,
    severity: 'unknown',
    seen: `you may not ${verb} ${resource}${where}`,
    next: `ask for that permission (kubectl auth can-i ${verb} ${resource}${flag}), or run it as somebody who has it`,
  };
}

/** What was seen; undefined when nothing was. For checks that go on with less. */
export const valueOf = <T>(looked: Look<T>): T | undefined =>
  looked.kind === 'seen' ? looked.value : undefined;
