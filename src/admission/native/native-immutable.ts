/** Immutable fields as CEL validations. */
import type { FieldPath } from '../../json/field-path.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { exceptionsProblem, inWords, type NativeCheck } from './native-check.ts';

const KEEP = 'keep the value it has, or delete the object and create it again';

/** The webhook also names the new value. */
export function immutableValidations(policy: CompiledPolicy): readonly NativeCheck[] {
  const problem = exceptionsProblem(policy);
  return policy.immutable.map(({ path, from }): NativeCheck => {
    const check = `immutable ${path.text}`;
    if (problem !== undefined) return { check, by: 'Webhook', reason: problem };
    const [before, after] = ['oldObject', 'object'].map((root) => valueAt(root, path));
    const set = from === 'first-value' ? `${before} == null || ` : '';
    return {
      check,
      by: 'APIServer',
      validation: {
        expression: `request.operation != 'UPDATE' || ${set}${before} == ${after}`,
        message: inWords(policy, path.text, `was set and cannot be changed: ${KEEP}`),
        messageExpression: messageFor(policy, path, String(before), String(after)),
        reason: 'Forbidden',
      },
    };
  });
}

function messageFor(policy: CompiledPolicy, { text }: FieldPath, before: string, after: string): string {
  const said = (message: string) => JSON.stringify(inWords(policy, text, message));
  const unset = said('was not set when the object was created and cannot be set later: leave it out');
  const removed = said(`was set and cannot be removed: ${KEEP}`);
  return `${before} == null ? ${unset} : ${after} == null ? ${removed} : ${said(`was set and cannot be changed: ${KEEP}`)}`;
}

const NAME = /^(?!(in|true|false|null)$)[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * Of any type: kube-controller-manager would refuse `null` as the value of a string. `compileImmutable` refuses `[*]`.
 */
const valueAt = (root: string, { segments }: FieldPath): string =>
  `dyn(${root})${segments.map(accessOf).join('')}.orValue(null)`;

function accessOf(segment: FieldPath['segments'][number]): string {
  if (segment.kind === 'field' && NAME.test(segment.name)) return `.?${segment.name}`;
  if (segment.kind === 'each') throw new Error('a list of unknown length cannot be immutable');
  return `[?${JSON.stringify(segment.kind === 'field' ? segment.name : segment.index)}]`;
}
