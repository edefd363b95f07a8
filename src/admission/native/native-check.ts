import { shorten } from '../../json/printable.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';

/** One check of a policy, and who enforces it. `reason`: why it needs the webhook. */
export type NativeCheck =
  | {
      readonly check: string;
      readonly by: 'APIServer';
      readonly part: NativePart;
      readonly validations: readonly Validation[];
      readonly auditAnnotations?: readonly NativeAuditAnnotation[];
      /** Expressions for lists of JSON patches, in their order. Only in the part `changes`. */
      readonly mutations?: readonly string[];
    }
  | WebhookCheck;

export interface WebhookCheck {
  readonly check: string;
  readonly by: 'Webhook';
  readonly reason: string;
  /** The generation of the AdmissionPolicy in which the API server warned about the types of the check. */
  readonly warnedGeneration?: number;
}

/** `params`: skipped while the params are missing. `notices`: never refuse. `changes`: a MutatingAdmissionPolicy. */
export type NativePart = 'policies' | 'params' | 'notices' | 'changes';

export interface Validation {
  readonly expression: string;
  readonly message: string;
  readonly messageExpression?: string;
  readonly reason: 'Forbidden' | 'Invalid' | 'RequestEntityTooLarge';
}

export type NativeAuditAnnotation = Readonly<Record<'key' | 'valueExpression', string>>;

export type NativeVariable = Readonly<Record<'name' | 'expression', string>>;

export const IGNORED_CONDITIONS =
  'failurePolicy Ignore admits requests whose matchConditions fail, and the API server would refuse them';

export const inWebhook = (check: string, reason: string): WebhookCheck => ({ check, by: 'Webhook', reason });

/** A line break ends a comment. Without one, the API server can warn about an error: it quotes the expression in a header. */
export const enclosed = (expression: string): string =>
  expression.includes('//') ? `(${expression}\n)` : `(${expression})`;

export const inWords = ({ name }: Pick<CompiledPolicy, 'name'>, field: string, message: string): string =>
  `${field === '' ? '' : `${shorten(field, 256)}: `}${message} (policy ${name})`;

/** A name for a generated variable that no variable of the user has. */
export const generatedName = ({ variables }: Pick<CompiledPolicy, 'variables'>, name: string): string =>
  variables.some((one) => one.name === name) ? generatedName({ variables }, `${name}_`) : name;
