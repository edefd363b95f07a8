/** Mutations as mutations of the API server: JSON patches that do exactly what the webhook does. */
import { CelError, compileCel } from '../../../cel/cel.ts';
import { MUTATION_MESSAGES } from '../../../cel/compile/messages.ts';
import type { CompiledMutation, CompiledPolicy } from '../../policy/compiled-policy.ts';
import type { CompiledExpression } from '../../policy/expressions/expression.ts';
import { expressionProblem } from '../native-rules.ts';
import { variablesFor } from '../variable-types.ts';
import { isOfCustomKinds } from './custom-kinds.ts';
import { patchesOf, patchesText, type Patches } from './patches.ts';
import { fieldsPath, overlapAny, pathsWritten } from './paths.ts';
import { NeedsWebhook, readerOf } from './written-value.ts';

export type NativeMutation =
  | { readonly kind: 'compiled'; readonly patches: Patches; readonly text: string }
  | { readonly kind: 'webhook'; readonly reason: string };

export function compileNativeMutation(policy: CompiledPolicy, mutation: CompiledMutation): NativeMutation {
  const { condition, change } = mutation;
  try {
    const reader = readerOf(policy, change.program.expression);
    const patches = patchesOf(mutation, reader);
    const list = patchesText(patches, reader.textOf, filledBy(policy));
    const parts = [...reader.used].map((text): CompiledExpression => ({ ...change, program: dynamic(text) }));
    const problem =
      identityProblem(mutation) ??
      fieldsProblem(policy, patches) ??
      expressionProblem(policy, condition === undefined ? parts : [condition, ...parts], true);
    if (problem !== undefined) throw new NeedsWebhook(problem);
    const text = condition === undefined ? list : `${isTrue(condition)} ? ${list} : []`;
    checkResult(policy, text);
    return { kind: 'compiled', patches, text };
  } catch (error) {
    if (!(error instanceof NeedsWebhook)) throw error;
    return { kind: 'webhook', reason: error.message };
  }
}

/** Defaults fill no items of new lists. */
const filledBy = ({ defaults }: CompiledPolicy): readonly (readonly string[])[] =>
  defaults.flatMap(({ path: { segments } }) => {
    const names = segments.flatMap((segment) => (segment.kind === 'field' ? [segment.name] : []));
    return names.length === segments.length ? [names] : [];
  });

const DYNAMIC = ['object', 'oldObject', 'request', 'namespaceObject', 'variables', 'params'];

/** A part of an expression that has compiled as a whole. */
const dynamic = (text: string) => compileCel(text, DYNAMIC);

const isTrue = ({ program }: CompiledExpression): string =>
  program.type === 'bool' ? `(${program.expression}\n)` : `((${program.expression}\n) ? true : false)`;

/** The webhook refuses these changes, and the API server only some of them. */
const IDENTITY = [
  ...[['apiVersion'], ['kind']],
  ...['name', 'namespace', 'uid'].map((field) => ['metadata', field]),
].map(fieldsPath);

const identityProblem = (mutation: CompiledMutation): string | undefined =>
  overlapAny(pathsWritten(mutation), IDENTITY)
    ? 'it may change who the object is, which only the webhook refuses'
    : undefined;

/** The fields of a sum of lists have not been compared with the schema. */
function fieldsProblem({ match }: CompiledPolicy, patches: Patches): string | undefined {
  if (match.apiGroups.every(isOfCustomKinds) || !isSum(patches)) return undefined;
  return 'its expression adds lists: write one, because the API server refuses unknown fields of built-in kinds';
}

const isSum = (patches: Patches): boolean =>
  patches.kind === 'joined' ||
  (patches.kind === 'choice' && [patches.whenTrue, patches.whenFalse].some(isSum));

/** The API server limits the length of an expression, and of its parts. */
const LONGEST = 50_000;

function checkResult(policy: CompiledPolicy, text: string): void {
  if (text.length > LONGEST) throw new NeedsWebhook('its expression would be too long');
  try {
    const { type } = compileCel(text, variablesFor(policy), {
      uniformLiterals: true,
      messages: MUTATION_MESSAGES,
    });
    if (type !== 'list(JSONPatch)') throw new NeedsWebhook('its expression changes nothing');
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    throw new NeedsWebhook(`the API server refuses its expression: ${error.message}`);
  }
}
