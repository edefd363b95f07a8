/** What the checks of a policy have in common. */
import { shorten } from '../../json/printable.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';

/** One check of a policy, and who enforces it. `reason`: why it needs the webhook. */
export type NativeCheck =
  | { readonly check: string; readonly by: 'APIServer'; readonly validation: Validation }
  | { readonly check: string; readonly by: 'Webhook'; readonly reason: string };

/** As in the API, `admissionregistration.k8s.io/v1`. */
export interface Validation {
  readonly expression: string;
  readonly message: string;
  readonly messageExpression?: string;
  readonly reason: 'Forbidden' | 'Invalid' | 'RequestEntityTooLarge';
}

/** Why exceptions keep the checks of a policy in the webhook; undefined: it has none. */
export function exceptionsProblem({ exceptions, grants }: CompiledPolicy): string | undefined {
  if (grants !== undefined) return 'PolicyExceptions may exempt objects from it';
  return exceptions.length === 0 ? undefined : 'the policy has exceptions';
}

/** The message of the webhook: field, problem, policy. */
export const inWords = ({ name }: Pick<CompiledPolicy, 'name'>, field: string, message: string): string =>
  `${field === '' ? '' : `${shorten(field, 256)}: `}${message} (policy ${name})`;
