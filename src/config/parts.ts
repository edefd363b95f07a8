/** The parts of Gatehouse that an installation can leave out with `--without`. */
export const PARTS = ['certificates', 'injection', 'conversions', 'restores'] as const;

export type Part = (typeof PARTS)[number];
