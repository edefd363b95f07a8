/** The converters of this replica: handlers, and the ConversionPolicies in force. */
import type { CompiledConversion } from '../../admission/conversion/compile.ts';
import type { ConversionSubject, Converter, ConverterLookup } from '../../admission/conversion/converter.ts';
import type { Definition } from '../../admission/conversion/definition.ts';
import { type GroupResource, groupResourceName } from '../../json/kube-object.ts';
import { createListeners } from '../listeners.ts';
import type { CompiledState } from '../policies/compiled-state.ts';

export interface ConversionState extends CompiledState<CompiledConversion> {
  readonly target: GroupResource;
  readonly definition: Definition | undefined;
}

export type ConversionRegistry = ReturnType<typeof createConversionRegistry>;

/** `kindOf` is undefined when the resource does not exist or is not known yet; `notCompiled`, before the first list. */
export function createConversionRegistry(
  handlers: readonly Converter[],
  kindOf: (target: GroupResource) => string | undefined,
  notCompiled: (group: string) => readonly string[] | undefined,
) {
  rejectDuplicates(handlers);
  const states = new Map<string, ConversionState>();
  const listeners = createListeners<[name: string]>();

  const lookUp = (subject: ConversionSubject): ConverterLookup => {
    const { group, kind, definition } = subject;
    const concerns = (target: GroupResource) =>
      target.group === group &&
      (definition === undefined ? kindOf(target) === kind : groupResourceName(target) === definition);
    const converter =
      handlers.find(({ target }) => concerns(target)) ??
      [...states.values()].find(({ inForce }) => inForce !== undefined && concerns(inForce.converter.target))
        ?.inForce?.converter;
    if (converter !== undefined) return found(converter, kindOf(converter.target), subject);

    const waitingFor = notCompiled(group);
    if (waitingFor === undefined || waitingFor.length > 0) {
      const what = waitingFor === undefined ? 'the ConversionPolicies' : waitingFor.join(', ');
      return { kind: 'unready', message: `this replica has not read ${what} yet` };
    }
    const broken = [...states].find(([, state]) => state.problem !== undefined && concerns(state.target));
    if (broken?.[1].problem?.reason === 'DefinitionNotRead')
      return { kind: 'unready', message: brokenMessage(broken) };
    return { kind: 'none', message: broken === undefined ? unknownMessage(subject) : brokenMessage(broken) };
  };

  return {
    set: (name: string, state: ConversionState): void => {
      states.set(name, state);
      listeners.tell(name);
    },
    remove: (name: string): void => {
      if (states.delete(name)) listeners.tell(name);
    },
    get: (name: string): ConversionState | undefined => states.get(name),
    lookUp,
    subscribe: listeners.add,
  };
}

function found(
  converter: Converter,
  known: string | undefined,
  { kind, definition }: ConversionSubject,
): ConverterLookup {
  if (known === undefined || known === kind) return { kind: 'found', converter };
  const path = `/convert/${definition ?? ''}`;
  return {
    kind: 'none',
    message:
      `the API server asked at ${path}, which converts ${known}, for objects of kind ${kind}: ` +
      'correct spec.conversion.webhook.clientConfig.service.path of their CustomResourceDefinition',
  };
}

function unknownMessage({ group, kind }: ConversionSubject): string {
  return (
    `kind ${kind} of ${group}: no ConversionPolicy or handler found; create one, ` +
    'or set spec.conversion of its CustomResourceDefinition to another webhook or to strategy: None'
  );
}

function brokenMessage([name, { problem }]: readonly [string, ConversionState]): string {
  return `ConversionPolicy ${name} is not in force: ${problem?.reason ?? ''}: ${problem?.message ?? ''}`;
}

function rejectDuplicates(handlers: readonly Converter[]): void {
  const byTarget = Map.groupBy(handlers, ({ target }) => groupResourceName(target));
  for (const [target, duplicates] of byTarget) {
    if (duplicates.length < 2) continue;
    const names = duplicates.map(({ name }) => name).join(' and ');
    throw new Error(`${names} both convert ${target}: remove one of them`);
  }
}
