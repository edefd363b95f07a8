/** Set by the vitest project `nightly`: suites then run completely, while CI runs a part of them. */
export const isNightly = process.env.GATEHOUSE_NIGHTLY === '1';
