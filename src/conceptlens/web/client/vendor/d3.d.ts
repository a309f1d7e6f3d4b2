/** What the page uses of D3. The types of D3 itself are larger than the page; here it is untyped. */
export const area: any;
export const axisBottom: any;
export const axisLeft: any;
export const bisector: any;
export const extent: any;
export const format: any;
export const line: any;
export const max: any;
export const scaleLinear: any;
export const scaleLog: any;
export const select: any;
