/** For tests: a conversion endpoint without policies. */
import type { ConversionServing } from '../../../src/server/conversion-routes.ts';

export const noConversions: ConversionServing = {
  lookUp: ({ kind }) => ({ kind: 'none', message: `nothing here converts ${kind}` }),
  bodyLimit: 1024 * 1024,
};
