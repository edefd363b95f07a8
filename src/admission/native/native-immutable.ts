/** Immutable fields as CEL validations. */
import type { FieldPath } from '../../json/field-path.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { inWebhook, inWords, type NativeCheck } from './native-check.ts';
import type { NativeExceptions } from './native-exceptions.ts';

const KEEP = 'keep the value it has, or delete the object and create it again';

/**
 * The webhook also names the new value.
 * @param problem why they stay in the webhook, if they do
 */
export function immutableValidations(
  policy: CompiledPolicy,
  { guard }: NativeExceptions,
  problem: string | undefined,
): readonly NativeCheck[] {
  return policy.immutable.map(({ path, from }): NativeCheck => {
    const check = `immutable ${path.text}`;
    if (problem !== undefined) return inWebhook(check, problem);
    const [before, after] = ['oldObject', 'object'].map((root) => valueAt(root, path));
    const set = from === 'first-value' ? `${before} == [] || ` : '';
    const validation = {
      expression: guard(`request.operation != 'UPDATE' || ${set}${before} == ${after}`, 'immutable'),
      message: inWords(policy, path.text, `was set and cannot be changed: ${KEEP}`),
      messageExpression: messageFor(policy, path, String(before), String(after)),
      reason: 'Forbidden' as const,
    };
    return { check, by: 'APIServer', part: 'policies', validations: [validation] };
  });
}
function messageFor(policy: CompiledPolicy, { text }: FieldPath, before: string, after: string): string {
  const said = (message: string) => JSON.stringify(inWords(policy, text, message));
  const unset = said('was not set when the object was created and cannot be set later: leave it out');
  const removed = said(`was set and cannot be removed: ${KEEP}`);
  return `${before} == [] ? ${unset} : ${after} == [] ? ${removed} : ${said(`was set and cannot be changed: ${KEEP}`)}`;
}

/** A list of the value, or an empty one: the API uses null for a field that is not set. */
const valueAt = (root: string, { segments }: FieldPath): string =>
  `[dyn(${root})]${segments.map(accessOf).join('')}.filter(value, value != null)`;

/** Total for every JSON value. `compileImmutable` refuses `[*]`. */
function accessOf(segment: FieldPath['segments'][number]): string {
  switch (segment.kind) {
    case 'each':
      throw new Error('a list of unknown length cannot be immutable');
    case 'index':
      return `.map(value, type(value) == list && value.size() > ${segment.index}, value[${segment.index}])`;
    case 'field': {
      const name = JSON.stringify(segment.name);
      return `.map(value, type(value) == map && ${name} in value, value[${name}])`;
    }
  }
}
