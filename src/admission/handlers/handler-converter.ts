import type { GroupResource } from '../../json/kube-object.ts';
import { ConversionFailure, versionOf, type Converter } from '../conversion/converter.ts';
import type { JsonObject } from '../../json/json.ts';
import { quote } from '../../json/printable.ts';
import { copyJson, InvalidDraft } from './draft.ts';
import type { HandlerConversion, VersionConversion } from './handler.ts';

/** Wraps a handler's `convert` as a converter. */
export function createHandlerConverter(
  handler: string,
  { group, resource }: GroupResource,
  { hub, versions }: HandlerConversion<never>,
): Converter {
  const conversions = new Map(Object.entries(versions));
  const conversionOf = (version: string): VersionConversion<never> => {
    const conversion = conversions.get(version);
    if (conversion !== undefined) return conversion;
    const known = [hub, ...conversions.keys()].join(', ');
    throw new ConversionFailure(`handler ${handler} converts ${known}, and not ${quote(version)}`);
  };
  return {
    name: `handler ${handler}`,
    target: { group, resource },
    versions: [hub, ...conversions.keys()],
    convert: (object, to) => {
      const from = versionOf(object);
      const atHub =
        from === hub ? object : changed(handler, object, (copy) => conversionOf(from).toHub(copy));
      // The author guarantees the type of hub objects, because the author writes the conversions to the hub.
      return to === hub ? atHub : changed(handler, atHub, (copy) => conversionOf(to).fromHub(copy as never));
    },
  };
}

/** @throws ConversionFailure if the result is not JSON */
function changed(handler: string, object: JsonObject, act: (copy: object) => unknown): JsonObject {
  const copy = copyJson(object);
  const answer = act(copy);
  if (answer !== undefined && (typeof answer !== 'object' || answer === null || answer instanceof Promise))
    throw new Error(
      `a conversion returned ${quote(answer)}: return the object, or nothing after a change in place`,
    );
  try {
    return copyJson(answer ?? copy);
  } catch (error) {
    if (!(error instanceof InvalidDraft)) throw error;
    throw new ConversionFailure(`handler ${handler} made something else than JSON of it: ${error.message}`, {
      cause: error,
    });
  }
}
