/* SPDX-License-Identifier: Apache-2.0
 * What the fake driver implements. A function with a _ptsz or _ptds variant has one body for both;
 * it asks fake_per_thread(). */
#ifndef FAKE_BODIES_H
#define FAKE_BODIES_H

#include "test/support/driver/fake.h"

#define BODY(name) __typeof__(name) fake_##name

BODY(cuInit); BODY(cuDriverGetVersion); BODY(cuGetErrorName); BODY(cuGetErrorString);
BODY(cuGetProcAddress); BODY(cuGetProcAddress_v2); BODY(cuGetExportTable);
BODY(cuDeviceGet); BODY(cuDeviceGetCount); BODY(cuDeviceGetName); BODY(cuDeviceGetUuid);
BODY(cuDeviceGetUuid_v2); BODY(cuDeviceTotalMem_v2); BODY(cuDeviceGetAttribute);
BODY(cuDeviceCanAccessPeer);

BODY(cuDevicePrimaryCtxRetain); BODY(cuDevicePrimaryCtxRelease); BODY(cuDevicePrimaryCtxRelease_v2);
BODY(cuDevicePrimaryCtxReset); BODY(cuDevicePrimaryCtxReset_v2); BODY(cuDevicePrimaryCtxGetState);
BODY(cuCtxCreate); BODY(cuCtxCreate_v2); BODY(cuCtxCreate_v4); BODY(cuCtxDestroy);
BODY(cuCtxDestroy_v2); BODY(cuCtxPushCurrent); BODY(cuCtxPushCurrent_v2); BODY(cuCtxPopCurrent);
BODY(cuCtxPopCurrent_v2); BODY(cuCtxSetCurrent); BODY(cuCtxGetCurrent); BODY(cuCtxGetDevice);
BODY(cuCtxGetApiVersion); BODY(cuCtxGetId); BODY(cuCtxSynchronize); BODY(cuCtxSynchronize_v2);
 BODY(cuCtxSetLimit);
BODY(cuCtxGetLimit); BODY(cuCtxRecordEvent); BODY(cuCtxEnablePeerAccess);
BODY(cuCtxDisablePeerAccess);
BODY(cuCtxGetStreamPriorityRange); BODY(cuThreadExchangeStreamCaptureMode);

BODY(cuStreamCreate); BODY(cuStreamCreateWithPriority); BODY(cuStreamDestroy);
BODY(cuGreenCtxStreamCreate);
BODY(cuStreamDestroy_v2); BODY(cuStreamQuery); BODY(cuStreamSynchronize); BODY(cuStreamGetCtx);
BODY(cuStreamGetFlags);
BODY(cuStreamGetPriority);
BODY(cuStreamWaitEvent);
BODY(cuStreamIsCapturing);
BODY(cuStreamBeginCapture_v2); BODY(cuStreamEndCapture); BODY(cuStreamAddCallback);
BODY(cuStreamBeginCaptureToGraph); BODY(cuStreamGetCaptureInfo_v2);
BODY(cuStreamGetCaptureInfo_v3);
BODY(cuStreamWaitValue32_v2); BODY(cuStreamWriteValue32_v2); BODY(cuLaunchHostFunc);
BODY(cuGraphCreate); BODY(cuGraphClone); BODY(cuGraphDestroy); BODY(cuGraphDestroyNode);
BODY(cuGraphNodeFindInClone); BODY(cuGraphChildGraphNodeGetGraph); BODY(cuGraphNodeGetType);
BODY(cuGraphGetNodes); BODY(cuGraphGetRootNodes); BODY(cuGraphGetEdges_v2);
BODY(cuGraphNodeGetDependencies_v2); BODY(cuGraphNodeGetDependentNodes_v2);
BODY(cuGraphAddDependencies_v2); BODY(cuGraphRemoveDependencies_v2); BODY(cuGraphAddNode_v2);
BODY(cuGraphAddKernelNode_v2); BODY(cuGraphAddMemcpyNode); BODY(cuGraphAddMemsetNode);
BODY(cuGraphAddHostNode); BODY(cuGraphAddEmptyNode); BODY(cuGraphAddEventRecordNode);
BODY(cuGraphAddEventWaitNode); BODY(cuGraphAddChildGraphNode); BODY(cuGraphAddBatchMemOpNode);
BODY(cuGraphKernelNodeGetParams_v2); BODY(cuGraphMemcpyNodeGetParams);
BODY(cuGraphMemsetNodeGetParams); BODY(cuGraphHostNodeGetParams);
BODY(cuGraphEventRecordNodeGetEvent); BODY(cuGraphEventWaitNodeGetEvent);
BODY(cuGraphKernelNodeSetParams_v2); BODY(cuGraphMemcpyNodeSetParams);
BODY(cuGraphMemsetNodeSetParams); BODY(cuGraphHostNodeSetParams);
BODY(cuGraphEventRecordNodeSetEvent); BODY(cuGraphEventWaitNodeSetEvent);
BODY(cuUserObjectCreate); BODY(cuUserObjectRetain); BODY(cuUserObjectRelease);
BODY(cuGraphRetainUserObject); BODY(cuGraphReleaseUserObject);
BODY(cuGraphBatchMemOpNodeGetParams); BODY(cuGraphBatchMemOpNodeSetParams);
BODY(cuGraphExecBatchMemOpNodeSetParams);
BODY(cuGraphNodeSetParams); BODY(cuGraphKernelNodeSetAttribute);
BODY(cuGraphKernelNodeGetAttribute); BODY(cuGraphKernelNodeCopyAttributes);
BODY(cuGraphInstantiateWithFlags); BODY(cuGraphInstantiateWithParams);
BODY(cuGraphExecGetFlags); BODY(cuGraphExecDestroy); BODY(cuGraphLaunch); BODY(cuGraphUpload);
BODY(cuGraphExecKernelNodeSetParams_v2); BODY(cuGraphExecMemcpyNodeSetParams);
BODY(cuGraphExecMemsetNodeSetParams); BODY(cuGraphExecHostNodeSetParams);
BODY(cuGraphExecEventRecordNodeSetEvent); BODY(cuGraphExecEventWaitNodeSetEvent);
BODY(cuGraphExecChildGraphNodeSetParams); BODY(cuGraphExecNodeSetParams);
BODY(cuGraphExecUpdate_v2); BODY(cuGraphNodeSetEnabled); BODY(cuGraphNodeGetEnabled);
BODY(cuEventCreate); BODY(cuEventDestroy); BODY(cuEventDestroy_v2); BODY(cuEventRecord);
BODY(cuEventRecordWithFlags);
BODY(cuEventQuery); BODY(cuEventSynchronize); BODY(cuEventElapsedTime); BODY(cuEventElapsedTime_v2);
BODY(cuIpcGetEventHandle); BODY(cuIpcOpenEventHandle);

BODY(cuModuleLoadData); BODY(cuModuleLoadDataEx); BODY(cuModuleLoad);
BODY(cuModuleUnload); BODY(cuModuleGetFunction);
BODY(cuModuleGetGlobal_v2); BODY(cuLaunchKernel);
BODY(cuLibraryLoadData); BODY(cuLibraryGetModule); BODY(cuLibraryUnload);
BODY(cuLibraryGetKernel);
BODY(cuKernelGetFunction);
BODY(cuLinkAddData_v2);
BODY(cuKernelGetName); BODY(cuKernelSetAttribute); BODY(cuKernelGetAttribute);
BODY(cuLibraryGetKernelCount); BODY(cuLibraryEnumerateKernels);
BODY(cuFuncGetName); BODY(cuFuncGetModule); BODY(cuFuncGetParamInfo); BODY(cuKernelGetParamInfo);
BODY(cuLibraryGetGlobal);

BODY(cuArrayCreate_v2); BODY(cuArray3DCreate_v2); BODY(cuArrayDestroy);
BODY(cuMipmappedArrayCreate); BODY(cuMipmappedArrayGetLevel); BODY(cuMipmappedArrayDestroy);
BODY(cuArray3DGetDescriptor_v2); BODY(cuMemcpy3D_v2); BODY(cuTexObjectCreate);
BODY(cuTexObjectDestroy); BODY(cuTexObjectGetResourceDesc); BODY(cuTexObjectGetTextureDesc);
BODY(cuSurfObjectCreate); BODY(cuSurfObjectDestroy); BODY(cuSurfObjectGetResourceDesc);

BODY(cuMemGetInfo_v2); BODY(cuMemAlloc_v2); BODY(cuMemAllocPitch_v2); BODY(cuMemFree_v2);
BODY(cuMemGetAddressRange_v2); BODY(cuMemAllocHost_v2); BODY(cuMemHostAlloc); BODY(cuMemFreeHost);
BODY(cuMemHostRegister_v2); BODY(cuMemHostUnregister); BODY(cuMemHostGetDevicePointer_v2);
BODY(cuMemHostGetFlags); BODY(cuMemAllocManaged); BODY(cuMemAdvise); BODY(cuMemAdvise_v2);
BODY(cuMemPrefetchAsync); BODY(cuMemPrefetchAsync_v2); BODY(cuMemRangeGetAttribute);
BODY(cuMemPrefetchBatchAsync);
BODY(cuMemDiscardBatchAsync);
BODY(cuMemDiscardAndPrefetchBatchAsync);
BODY(cuStreamAttachMemAsync); BODY(cuPointerGetAttribute);
BODY(cuPointerGetAttributes);
BODY(cuMemAllocAsync); BODY(cuMemFreeAsync); BODY(cuMemAllocFromPoolAsync); BODY(cuMemPoolCreate);
BODY(cuMemPoolDestroy); BODY(cuDeviceGetDefaultMemPool); BODY(cuDeviceGetMemPool);
BODY(cuMemPoolTrimTo); BODY(cuMemPoolSetAttribute); BODY(cuMemPoolGetAttribute);
BODY(cuDeviceGraphMemTrim);
BODY(cuDeviceSetMemPool);
BODY(cuMemPoolSetAccess);
BODY(cuMemPoolGetAccess);

BODY(cuMemAddressReserve); BODY(cuMemAddressFree); BODY(cuMemCreate); BODY(cuMemRelease);
BODY(cuMemMap); BODY(cuMemUnmap); BODY(cuMemSetAccess); BODY(cuMemGetAccess);
BODY(cuMemExportToShareableHandle); BODY(cuMemImportFromShareableHandle);
BODY(cuMemGetAllocationGranularity); BODY(cuMemGetAllocationPropertiesFromHandle);
BODY(cuMemRetainAllocationHandle); BODY(cuIpcGetMemHandle); BODY(cuIpcOpenMemHandle_v2);
BODY(cuIpcCloseMemHandle);

BODY(cuImportExternalMemory); BODY(cuExternalMemoryGetMappedBuffer); BODY(cuDestroyExternalMemory);
BODY(cuImportExternalSemaphore);
BODY(cuDestroyExternalSemaphore); BODY(cuMemPoolImportFromShareableHandle); BODY(cuMulticastCreate);

BODY(cuMemcpy); BODY(cuMemcpyHtoD_v2); BODY(cuMemcpyDtoH_v2); BODY(cuMemcpyDtoD_v2);
BODY(cuMemcpyAsync); BODY(cuMemcpyHtoDAsync_v2); BODY(cuMemcpyDtoHAsync_v2);
BODY(cuMemcpyDtoDAsync_v2); BODY(cuMemsetD8_v2); BODY(cuMemsetD32_v2); BODY(cuMemsetD8Async);
BODY(cuMemsetD32Async);

BODY(cuCheckpointProcessGetState); BODY(cuCheckpointProcessLock);
BODY(cuCheckpointProcessCheckpoint); BODY(cuCheckpointProcessRestore);
BODY(cuCheckpointProcessUnlock); BODY(cuCheckpointProcessGetRestoreThreadId);

#endif
